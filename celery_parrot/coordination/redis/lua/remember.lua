-- call.marks: {id, last_due, held, when}; call.outbox: {text, moment, claim (JSON text)};
-- call.proofs: {"token:id": plan}.
-- What a beat remembers, for a server that forgot.
rejoin()
for _, mark in ipairs(call.marks) do
  local key = K('state:' .. mark.id)
  local state = redis.call('HMGET', key, 'last_due', 'when', 'init', 'disabled_by')
  local stored, when = state[1], state[2] or ''
  local other = stored and mark.when ~= '' and when ~= '' and mark.when ~= when
  -- a definition of the redis store that is gone leaves no run state behind
  local gone = mark.when == JOB and redis.call('HEXISTS', K('jobs'), mark.id) == 0
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
for _, entry in ipairs(call.outbox) do
  if redis.call('EXISTS', K('fire:' .. entry.text)) == 0 then
    local f = fire_of(entry.text, entry.claim)
    if f.c.proof then
      keep_proof(f, call.proofs[f.c.proof .. ':' .. f.id])
    end
    save(f)
    record(f)
  end
end
return done({})
