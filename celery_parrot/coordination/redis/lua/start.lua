-- call.items: {text, id, moment, name, kind, origin, token, worker, attempt, retries, put_back, deadline?,
-- silent_after?, limits?, override?}
-- -> {verdict, attempt, lease_until or 0, retry_after in ms, then name, capacity, busy and buffer or "" of each limit that
-- it holds} each, {} where something cannot be read. The rules are numbered as in protocols/coordinator.py.
local lost = enter()
if lost then
  return lost
end

local function running(c)
  local reply = { 'run', c.attempt, c.lease, 0 }
  for _, limit in ipairs(c.granted and c.limits or {}) do
    reply[#reply + 1] = limit.name
    reply[#reply + 1] = limit.capacity
    reply[#reply + 1] = limit.busy
    reply[#reply + 1] = limit.buffer or ''
  end
  return reply
end

local function run(f, d, attempt)
  local c = f.c
  was_sent(f)
  end_reservation(f)
  if c.place then
    out_of_turn(f)
  end
  c.status, c.attempt, c.sent_as, c.retries = 'running', attempt, d.attempt, d.retries
  c.token, c.worker, c.started, c.lease = d.token, d.worker, now, now + conf.lease
  c.finished, c.put_back, c.unproved, c.reason = nil, nil, nil, ''
  c.progressed, c.progress, c.silent_after = now, nil, d.silent_after
  save(f)
  record(f)
  return running(c)
end

local function over(c)
  return c.deadline and now > c.deadline and judging()
end

-- 7 and 8: nobody runs it
local function open(f, d)
  if over(f.c) then
    was_sent(f)
    finish_as(f, 'expired', 'queue deadline', false)
    return { 'expired', f.c.attempt, 0, 0 }
  end
  return run(f, d, f.c.attempt)
end

-- 5 and 6: it is running
local function meet(f, d)
  local c = f.c
  if c.token == d.token then
    return running(c)
  end
  local live = now < c.lease
  if not live and judging() then
    return run(f, d, c.attempt + 1)
  end
  if d.put_back and live and not c.unproved then
    return { 'duplicate', c.attempt, 0, 0 }
  end
  c.put_back, c.unproved = now, true -- proved again by the next renewal
  save(f)
  return { 'put_back', c.attempt, 0, conf.lease }
end

local function unknown(d, entry)
  return { text = d.text, id = d.id, moment = d.moment, was = 'sent', c = {
    moment = d.moment, name = d.name, kind = d.kind, origin = d.origin, status = 'sent', owner = '', owned = now,
    committed = now, tries = 0, attempt = d.attempt, sent_as = d.attempt, retries = d.retries, token = '',
    worker = '', reason = '', deadline = d.deadline, guard = stray_guard(d.origin), override = d.override,
    -- known to the history, it has been counted before its claim expired
    counted = entry and true or nil, told = entry and entry.delivery and true or nil, tells = TELLS_ALL,
    store = entry and entry.store, stray = not (entry and entry.store) or nil,
  } }
end

-- What it held may be somebody else's by now: a beat asks for its limits, and sends the next attempt.
local function ask_again(f, d)
  local c = f.c
  was_sent(f)
  c.status, c.attempt, c.retries, c.free, c.deadline = 'pending', d.attempt + 1, 0, true, nil
  c.sent_as = c.attempt
  save(f)
  record(f)
  wake()
  return { 'asks_again', c.attempt, 0, 0 }
end

local function start(d)
  if quiet() then -- 1
    return { 'quiet', d.attempt, 0, common.quiet_until - now }
  end
  local f = load(d.text)
  if not f then -- 2
    local entry = entry_of(d.id, d.moment)
    local ended = entry and entry.committed and not ON_THE_WAY[entry.status] and entry.status ~= 'unknown'
    if d.put_back or ended then
      return { 'duplicate', d.attempt, 0, 0 }
    end
    f = unknown(d, entry)
    if d.limits and not over(f.c) then
      return ask_again(f, d)
    end
    return open(f, d)
  end
  local c = f.c
  if not ON_THE_WAY[c.status] and c.status ~= 'unknown' then -- 3
    return { 'duplicate', c.attempt, 0, 0 }
  end
  if d.attempt < c.sent_as or (d.attempt == c.sent_as and d.retries < c.retries) then -- 4
    return { 'duplicate', c.attempt, 0, 0 }
  end
  if d.attempt > c.sent_as or d.retries > c.retries then
    c.passed = c.token
    return run(f, d, math.max(c.attempt + 1, d.attempt))
  end
  if c.status == 'running' then
    return meet(f, d)
  end
  return open(f, d)
end

return done(each(call.items, start, claim_of, {}))
