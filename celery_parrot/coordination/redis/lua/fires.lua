-- Claims, outbox, leases, history and run state: what most scripts share.
--
-- fire:{text}   claim, JSON; expires claim_ttl after its last change, ended_ttl after its outcome
-- pending       outbox: sorted set of claim texts by commit time
-- leases        running fires: sorted set of claim texts by end of lease
-- seen          beats: sorted set of owners by last sign of life
-- fires:{id}    history: hash moment -> JSON
-- state:{id}    run state: hash
-- proofs        hash: "{token}:{id}" -> plan of a commit that a row in a database decides, "#{token}:{id}" -> how many
--               pending claims still carry it
-- carry         hash: claim text -> JSON: what happened to fires of such rows and is not in the database yet
-- uncarried     sorted set: the same claim texts, oldest first
--
-- A fire here is a table: text ("{id}:{moment}"), id, moment, was (status when loaded), c (the claim).

local ON_THE_WAY = { pending = true, waiting = true, sent = true, running = true }
local FAILURE = { error = true, target_missing = true, abandoned = true }
local AUTOMATIC = { schedule = true, catch_up = true }

local touched_history, touched_sets = {}, {}

local function fire_of(text, raw)
  local c = cjson.decode(raw)
  return { text = text, id = text:sub(1, #text - #c.moment - 1), moment = c.moment, was = c.status, c = c }
end

local function load(text)
  local raw = redis.call('GET', K('fire:' .. text))
  if raw then
    return fire_of(text, raw)
  end
  return nil
end

-- The claim, if it is pending exactly as its holder knows it.
local function held(hold)
  local f = load(hold.text)
  if f and f.c.status == 'pending' and f.c.owner == hold.owner and f.c.tries == hold.tries then
    return f
  end
  return nil
end

-- --- proofs ------------------------------------------------------------------------------------------------------

-- One more pending claim needs this plan.
local function keep_proof(f, plan)
  local field = f.c.proof .. ':' .. f.id
  redis.call('HSET', K('proofs'), field, plan)
  redis.call('HINCRBY', K('proofs'), '#' .. field, 1)
  touched_sets.proofs = true
end

-- A claim that leaves the outbox has been proven, or is gone: the last one takes the plan along.
local function let_proof_go(f)
  local field = f.c.proof .. ':' .. f.id
  if redis.call('HINCRBY', K('proofs'), '#' .. field, -1) <= 0 then
    redis.call('HDEL', K('proofs'), field, '#' .. field)
  end
  f.c.proof = nil
end

local told_proofs = {}

-- The plan that proves a claim, told once a call: many claims may share it.
local function proof_of(c, id)
  local field = c.proof and c.proof .. ':' .. id
  if not field or told_proofs[field] then
    return ''
  end
  told_proofs[field] = true
  return redis.call('HGET', K('proofs'), field) or ''
end

-- Write the claim; outbox and leases follow its status.
local function save(f)
  local c = f.c
  if c.store == 'db' or c.stray then
    c.serial = math.max((c.serial or 0) + 1, now) -- grows over a loss of memory, too
  end
  if c.proof and c.status ~= 'pending' then
    let_proof_go(f)
  end
  if c.status == 'pending' then
    redis.call('ZADD', K('pending'), c.committed, f.text)
    touched_sets.pending = true
  else
    c.free = nil
    if f.was == 'pending' then
      redis.call('ZREM', K('pending'), f.text)
    end
  end
  if c.status == 'running' then
    redis.call('ZADD', K('leases'), c.lease, f.text)
    touched_sets.leases = true
  else
    c.lease = nil
    c.token = ''
    if f.was == 'running' then
      redis.call('ZREM', K('leases'), f.text)
    end
  end
  local life = ON_THE_WAY[c.status] and conf.claim_ttl or conf.ended_ttl
  redis.call('SET', K('fire:' .. f.text), cjson.encode(c), 'PX', life)
  f.was = c.status
end

-- As if it had never been claimed.
local function forget(f)
  if f.c.proof then
    let_proof_go(f)
  end
  redis.call('DEL', K('fire:' .. f.text))
  redis.call('ZREM', K('pending'), f.text)
  redis.call('HDEL', K('fires:' .. f.id), f.moment)
end

-- --- history ----------------------------------------------------------------------------------------------------

local function write_record(id, moment, entry)
  redis.call('HSET', K('fires:' .. id), moment, cjson.encode(entry))
  touched_history[id] = entry.store or 'code'
end

-- Only schedules that are registered have one: a stray delivery must not leave a permanent key behind.
local function has_state(id)
  return redis.call('HEXISTS', K('state:' .. id), 'last_due') == 1
end

local MOST_STRAYS = 1000

-- Tell the database of a fire of a row. A fire that came back by its message alone may be a row's, if nothing is known
-- of its schedule here; few of those wait, as there may be no database to ask.
local function carry(f, entry)
  local c = f.c
  if c.store ~= 'db' and not c.stray then
    return
  end
  if c.store ~= 'db' and (has_state(f.id) or redis.call('ZCARD', K('uncarried')) >= MOST_STRAYS) then
    return
  end
  entry.moment, entry.serial = f.moment, c.serial
  redis.call('HSET', K('carry'), f.text, cjson.encode(entry))
  if not redis.call('ZSCORE', K('uncarried'), f.text) then
    redis.call('ZADD', K('uncarried'), c.serial, f.text)
  end
  touched_sets.carry, touched_sets.uncarried = true, true
end

-- The fire's entry as its claim is now. A row knows of its pending fires; everything later is carried there.
local function record(f, output, err, uncounted)
  local c = f.c
  local entry = {
    name = c.name, kind = c.kind, origin = c.origin, status = c.status, reason = c.reason, attempt = c.attempt,
    beat = c.owner, worker = c.worker, committed = c.committed, sent = c.sent, started = c.started,
    finished = c.finished, output = output, error = err, late = c.late, store = c.store, proof = c.proof,
    uncounted = uncounted and true or nil,
  }
  write_record(f.id, f.moment, entry)
  if c.status ~= 'pending' then
    carry(f, entry)
  end
end

local function by_time(moments)
  local keys = {}
  for _, moment in ipairs(moments) do
    keys[moment] = sortable(moment)
  end
  table.sort(moments, function(a, b) return keys[a] < keys[b] end)
  return keys
end

-- Cut back to the limit, a batch at a time so that most calls cost one HLEN.
local function prune(id, limit)
  local key = K('fires:' .. id)
  local surplus = redis.call('HLEN', key) - limit
  if surplus <= math.max(math.floor(limit / 10), 1) then
    return
  end
  local moments = redis.call('HKEYS', key)
  by_time(moments)
  for first = 1, surplus, 500 do
    redis.call('HDEL', key, unpack(moments, first, math.min(first + 499, surplus)))
  end
end

-- Once a day a schedule: drop what is older than the history is kept.
local function prune_old(id)
  local key, cutoff = K('fires:' .. id), sortable(iso(now - conf.history_ms))
  for _, moment in ipairs(redis.call('HKEYS', key)) do
    if sortable(moment) < cutoff then
      local entry = cjson.decode(redis.call('HGET', key, moment))
      if not (entry['until'] and sortable(entry['until']) >= cutoff) then
        redis.call('HDEL', key, moment)
      end
    end
  end
end

local function entry_of(id, moment)
  local raw = redis.call('HGET', K('fires:' .. id), moment)
  return raw and cjson.decode(raw) or nil
end

-- moment, entry, moment, entry, … strictly before `before` if given, newest due time first.
local function history(id, limit, before)
  local key = K('fires:' .. id)
  local moments = redis.call('HKEYS', key)
  local keys = by_time(moments)
  before = before and sortable(before)
  local wanted = {}
  for i = #moments, 1, -1 do
    if #wanted >= limit then
      break
    end
    if not before or keys[moments[i]] < before then
      wanted[#wanted + 1] = moments[i]
    end
  end
  local found = {}
  for first = 1, #wanted, 500 do
    local last = math.min(first + 499, #wanted)
    for i, raw in ipairs(redis.call('HMGET', key, unpack(wanted, first, last))) do
      found[#found + 1] = wanted[first + i - 1]
      found[#found + 1] = raw
    end
  end
  return found
end

-- A claim that expired on the way (nobody looked for its whole life), rebuilt from its history entry if that has the
-- status `status`, so that what became of it is recorded after all.
local function rebuild(text, status)
  local moment = text:match('(%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.?%d*%+00:00.*)$')
  local id = moment and text:sub(1, #text - #moment - 1)
  local entry = moment and entry_of(id, moment)
  if not entry or entry.status ~= status then
    return nil
  end
  local f = { text = text, id = id, moment = moment, was = status, c = {
    moment = moment, name = entry.name, kind = entry.kind, origin = entry.origin, status = status,
    owner = entry.beat, owned = entry.committed, committed = entry.committed, tries = 0, attempt = entry.attempt,
    sent_as = entry.attempt, retries = 0, token = '', worker = entry.worker, reason = '', sent = entry.sent,
    started = entry.started, lease = now, counted = entry.sent and true or nil, store = entry.store,
    proof = entry.proof,
  } }
  save(f)
  return f
end

-- --- run state ---------------------------------------------------------------------------------------------------

-- last_run, and run_count once a fire however often it is sent.
local function count_sent(f)
  if f.c.counted then
    return
  end
  f.c.counted = true
  if has_state(f.id) then
    redis.call('HSET', K('state:' .. f.id), 'last_run', iso_now())
    redis.call('HINCRBY', K('state:' .. f.id), 'run_count', 1)
  end
end

-- A message of it has arrived, so it was sent, whatever the beat knows.
local function was_sent(f)
  f.c.sent = f.c.sent or now
  count_sent(f)
end

-- Run state and history of a fire that has just ended. Skipped, missed and expired leave the run state alone.
local function outcome(f, output, err, counted)
  local c, key = f.c, K('state:' .. f.id)
  if (c.status == 'success' or FAILURE[c.status]) and has_state(f.id) then
    if c.status == 'success' then
      redis.call('HSET', key, 'last_status', 'success', 'last_result_at', iso_now(), 'consecutive_failures', 0)
      redis.call('HDEL', key, 'last_error')
      if output then
        redis.call('HSET', key, 'last_result', output)
      else
        redis.call('HDEL', key, 'last_result')
      end
    else
      local status = c.status == 'target_missing' and 'target_missing' or 'error'
      redis.call('HSET', key, 'last_status', status, 'last_error', err or c.reason, 'last_error_at', iso_now())
      if counted then
        redis.call('HINCRBY', key, 'consecutive_failures', 1)
      end
    end
  end
  record(f, output, err, FAILURE[c.status] and not counted)
end

-- The fire has ended: give back its limits and name the waiting fires that now fit. There are no limits here yet;
-- this is the one place that finish, reap, drop and expiry go through, in the same step as the outcome.
local function release(f)
  return {}
end

-- --- not fired ---------------------------------------------------------------------------------------------------

-- One entry for due times that are decided without firing. Never replaces that of a fire.
local function not_fired(plan, range, owner)
  local before = redis.call('HGET', K('fires:' .. plan.id), range.first)
  if before and cjson.decode(before).committed then
    return
  end
  write_record(plan.id, range.first, {
    name = plan.name, kind = plan.kind, origin = 'schedule', status = range.status, reason = range.reason,
    attempt = 1, beat = owner, worker = '', finished = now, count = range.count,
    ['until'] = range.count > 1 and range.last or nil,
  })
end

-- --- who may take ------------------------------------------------------------------------------------------------

local alive_cache = {}

local function alive(owner)
  if alive_cache[owner] == nil then
    local seen = redis.call('ZSCORE', K('seen'), owner)
    alive_cache[owner] = (seen and now - tonumber(seen) <= conf.heartbeat) and true or false
  end
  return alive_cache[owner]
end

local function heartbeat(owner)
  redis.call('ZADD', K('seen'), now, owner)
  touched_sets.seen = true
end

-- Whether `who` may take this pending claim now.
local function takeable(c, who)
  local age = now - c.owned
  if quiet() then
    return false
  end
  if c.free then
    return true
  end
  -- Its own: that judges nobody, so there is no need to wait for judge_from.
  if c.owner == who and age >= math.min(2 ^ math.min(c.tries, 30) * 1000, conf.retry_cap) then
    return true
  end
  if not judging() or now < common.beats_from then
    return false
  end
  return not alive(c.owner) or age >= conf.takeover
end

-- Give all that was touched a life. History of rows is in their database; what is here is a short copy, by which a late
-- delivery of an ended fire is recognised.
local function settle()
  for id, store in pairs(touched_history) do
    local copy = store == 'db'
    redis.call('PEXPIRE', K('fires:' .. id), copy and conf.copy_ms or conf.history_ms)
    prune(id, copy and conf.copy_limit or conf.history_limit)
  end
  for name in pairs(touched_sets) do
    redis.call('PEXPIRE', K(name), conf.keep)
  end
end

-- End of every script that writes.
local function done(items)
  settle()
  return answer(items)
end
