-- call.items: {text, token, status, reason, output?, error?, traceback?, counted, late, attempt?, deadline?}
-- -> {verdict, texts of the waiting fires that the release put back into the outbox…} each,
-- {} where something cannot be read.
local lost = enter()
if lost then
  return lost
end

local BEFORE_RUNNING = { pending = true, waiting = true, sent = true }

local function may_end(c, o)
  if o.token ~= '' then
    return c.status == 'running' and c.token == o.token
  end
  if o.attempt and o.attempt < c.sent_as then
    return false -- of a message before the newest
  end
  return BEFORE_RUNNING[c.status] and o.status ~= 'sent'
end

local function finish_it(f, o)
  local c = f.c
  c.ended_by, c.ended_as = o.token, o.status
  if o.status == 'sent' then
    -- The coming message carries one more retry. Expecting it makes a redelivery of this one a duplicate.
    c.status, c.attempt, c.retries, c.deadline = 'sent', c.attempt + 1, c.retries + 1, o.deadline
    save(f)
    record(f)
    return { 'recorded' }
  end
  was_sent(f)
  c.status, c.reason, c.finished = o.status, o.reason, now
  f.traceback = o.traceback
  local reply = release(f, o.output, o.error, o.counted)
  table.insert(reply, 1, 'recorded')
  return reply
end

-- Keep what a result that came too late said; nothing else changes.
local function note(f, o)
  f.c.late = o.late -- later entries of the fire keep it
  save(f)
  local entry = entry_of(f.id, f.moment)
  if entry then
    entry.late = o.late
    write_record(f.id, f.moment, entry)
    carry(f, entry)
  end
end

local function finish(o)
  local f = load(o.text)
  if not f then
    return { 'unknown' }
  end
  local c = f.c
  may_carry(f)
  if may_end(c, o) then
    return finish_it(f, o)
  end
  if c.ended_as == o.status and c.ended_by == o.token then
    return { 'recorded' } -- the reply to the first was lost
  end
  if o.status == 'sent' then
    -- its retry has begun already: nothing to say
    return { (o.token ~= '' and c.passed == o.token) and 'recorded' or 'late' }
  end
  if o.token ~= '' then
    note(f, o)
  end
  return { 'late' }
end

return done(each(call.items, finish, claim_of, {}))
