-- call.marks: {id, last_due, held, when}; call.outbox: {text, moment, claim (JSON text)};
-- call.line: the same of waiting fires, in order;
-- call.proofs: {"token:id": plan}; call.seen_at? (ms) and call.same_age.
-- mirrored  set: texts of fires of outbox and line that came from memories in this epoch; mirror_of: the freshest of those
-- What a beat remembers, for a server that forgot.
local lost = rejoin()
if lost then
  return lost
end

local function remember_mark(mark)
  local key = K('state:' .. mark.id)
  local state = ask(state_of(mark), 'HMGET', key, 'last_due', 'when', 'init', 'disabled_by')
  local stored, when = moment_of(mark.id, state[1]), state[2] or ''
  local other = stored and mark.when ~= '' and when ~= '' and mark.when ~= when
  -- a definition of the redis store that is gone leaves no run state behind
  local gone = mark.when == JOB and ask('jobs', 'HEXISTS', K('jobs'), mark.id) == 0
  if not other and not gone then -- a mark that belongs to another definition says nothing about this one
    local last_due = mark.last_due
    if stored and state[3] ~= '1' and sortable(stored) > sortable(last_due) then
      last_due = stored
    end
    if (not stored or state[3] == '1') and (state[4] or '') == '' and mark.held ~= '' then
      redis.call('HSET', key, 'disabled_by', mark.held)
    end
    redis.call('HSET', key, 'last_due', last_due, 'init', '', 'when', when ~= '' and when or mark.when)
  end
end
each(call.marks, remember_mark, state_of)

-- What an older memory put back and a fresher one does not know has been sent since.
local function take_back()
  local texts = try('mirrored', '', 'SMEMBERS', K('mirrored'))
  if not texts then
    return
  end
  each(texts, function(text)
    local f = load(text)
    if f and (f.c.status == 'pending' or f.c.status == 'waiting') then
      next_turns(let_go(f))
      forget(f)
    end
  end, claim_of)
  redis.call('DEL', K('mirrored'))
end

local function is_fresh()
  local of = tonumber(redis.call('HGET', KEYS[1], 'mirror_of') or '')
  if not call.seen_at or not of then
    if call.seen_at then
      redis.call('HSET', KEYS[1], 'mirror_of', call.seen_at)
    end
    return true
  end
  local ahead = call.seen_at - of
  if ahead > call.same_age and quiet() then
    take_back()
  end
  redis.call('HSET', KEYS[1], 'mirror_of', math.max(call.seen_at, of))
  return ahead >= -call.same_age
end

local function restore(f)
  save(f)
  record(f)
  if try('mirrored', f.text, 'SADD', K('mirrored'), f.text) then
    touched_sets.mirrored = true
  end
end

-- With what a waiting fire holds.
local function back_in_line(f)
  for _, limit in ipairs(f.c.limits) do
    if not waits(limit) then
      hold_limit(limit, f.text)
    end
  end
  join_line(f)
  f.c.waited_for, f.c.waited_from = first_wanted(f.c.limits), f.c.since
  unsettle() -- whose turn it is will be seen when the silence is over
  restore(f)
end

if is_fresh() then
  each(call.outbox, function(entry)
    if redis.call('EXISTS', K('fire:' .. entry.text)) == 0 then
      local f = fire_of(entry.text, entry.claim)
      if f.c.proof then
        keep_proof(f, call.proofs[f.c.proof .. ':' .. f.id])
      end
      restore(f)
    end
  end, claim_of)
  each(call.line, function(entry)
    if redis.call('EXISTS', K('fire:' .. entry.text)) == 0 then
      back_in_line(fire_of(entry.text, entry.claim))
    end
  end, claim_of)
end
return done({})
