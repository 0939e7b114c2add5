-- call.owner; call.plans: {id, name, kind, mark, new_mark, fires: {{moment, origin}…}, ranges: {…}, max_fires?, tells?,
-- of the redis store also store, version and at (next sending instant in ms, "" if there is none)}
-- -> {verdict, mark, held, lost, index of each fire won…} each; {} where the schedule's data cannot be read.
-- Per plan all or nothing: claims (NX), outbox, history, mark in one step. So all that can be wrong with the data is
-- found out before the first write.
local lost = enter(true)
if lost then
  return lost
end
heartbeat(call.owner)
local today = math.floor(now / 86400000)

-- Old history goes in small batches: the first commits of a day must not keep the server from others.
local MOST_PRUNED, pruned = 20, 0

local function claim(plan, fire)
  local c = {
    moment = fire[1], name = plan.name, kind = plan.kind, origin = fire[2], status = 'pending', owner = call.owner,
    owned = now, committed = now, tries = 0, attempt = 1, sent_as = 1, retries = 0, token = '', worker = '',
    reason = '', store = plan.store, recover = plan.recover, tells = plan.tells,
    told = has_entry(plan.id, fire[1]),
  }
  local f = { text = plan.id .. ':' .. fire[1], id = plan.id, moment = fire[1], was = 'pending', c = c }
  if not redis.call('SET', K('fire:' .. f.text), cjson.encode(c), 'NX', 'PX', conf.claim_ttl) then
    return false -- somebody else's, or ended: the mark moves all the same
  end
  redis.call('ZADD', K('pending'), now, f.text)
  touched_sets.pending = true
  record(f)
  return true
end

local function commit(plan)
  local key = K('state:' .. plan.id)
  local state = ask('state:' .. plan.id, 'HMGET', key, 'last_due', 'disabled_by', 'auto_count', 'pruned')
  local mark, disabled = state[1], state[2] or ''
  if quiet() then
    return { 'moved', mark and moment_of(plan.id, mark) or '', '', 0 }
  elseif not mark then
    return { 'unknown', '', '', 0 }
  elseif disabled ~= '' then
    return { 'held', moment_of(plan.id, mark), disabled, 0 }
  elseif mark ~= plan.mark then
    return { 'moved', moment_of(plan.id, mark), '', 0 }
  end
  local job = plan.store == 'redis'
  if job then
    local raw = ask('jobs', 'HGET', K('jobs'), plan.id)
    if not raw then
      return { 'unknown', '', '', 0 }
    elseif job_version(raw) ~= plan.version then
      return { 'moved', mark, '', 0 }
    end
  end
  local reply, missed = { 'committed', plan.new_mark, '', 0 }, 0
  local count = counter(plan.id, 'auto_count', state[3])
  local reserved = 0
  for i, fire in ipairs(plan.fires) do
    local automatic = AUTOMATIC[fire[2]]
    local full = automatic and plan.max_fires and count + reserved >= plan.max_fires
    if full then
      missed = missed + redis.call('EXISTS', K('fire:' .. plan.id .. ':' .. fire[1]))
    elseif claim(plan, fire) then
      reply[#reply + 1] = i
      reserved = reserved + (automatic and 1 or 0)
    else
      missed = missed + 1
    end
  end
  reply[4] = missed
  for _, range in ipairs(plan.ranges) do
    not_fired(plan, range, call.owner)
    tell_range(plan, range)
  end
  redis.call('HSET', key, 'last_due', plan.new_mark, 'init', '', 'auto_count', count + reserved)
  if tonumber(state[4] or '0') ~= today and pruned < MOST_PRUNED then
    redis.call('HSET', key, 'pruned', today)
    if state[4] then
      pruned = pruned + 1
      prune_old(plan.id)
    end
  end
  if job then
    place(plan.id, plan.kind, plan.at, '', count + reserved, plan.max_fires)
  end
  return reply
end

return done(each(call.plans, commit, state_of, {}))
