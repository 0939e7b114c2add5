-- call.items: {text, id, moment, name, kind, origin, token, worker, attempt, sent_as, retries, started,
-- silent_after?, holds: {{name, capacity, busy, buffer?}…}}.
-- Fires that run on a worker, for a server that forgot.
local lost = rejoin()
if lost then
  return lost
end

-- It holds what it held, whoever else may have got it since.
local function hold_again(f, limits)
  if #limits > 0 then
    f.c.limits = limits
  end
  if f.c.place then
    out_of_turn(f)
  elseif f.c.limits then
    hold_all(f)
    f.c.granted = true
  end
end

local function restore(r)
  local known_here = has_entry(r.id, r.moment)
  local f = load(r.text) or { text = r.text, id = r.id, moment = r.moment, was = 'sent', c = {
    moment = r.moment, name = r.name, kind = r.kind, origin = r.origin, status = 'sent', owner = '', owned = now,
    committed = r.started, tries = 0, attempt = 1, sent_as = 1, retries = 0, token = '', worker = '', reason = '',
    sent = r.started, counted = known_here, told = known_here, stray = true, tells = TELLS_ALL, guard = stray_guard(r.origin),
  } }
  local c = f.c
  if not ON_THE_WAY[c.status] or (c.status == 'running' and c.token ~= r.token) then
    return
  end
  if r.sent_as < c.sent_as or (r.sent_as == c.sent_as and r.retries < c.retries) then
    return -- it goes on as a later attempt
  end
  count_sent(f)
  end_reservation(f)
  hold_again(f, r.holds)
  c.status, c.attempt, c.sent_as, c.retries = 'running', math.max(c.attempt, r.attempt), r.sent_as, r.retries
  c.token, c.worker, c.lease = r.token, r.worker, now + conf.lease
  c.sent, c.started = c.sent or r.started, r.started
  c.progressed, c.silent_after = now, r.silent_after
  save(f)
  record(f)
end

each(call.items, restore, claim_of)
return done({})
