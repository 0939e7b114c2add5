-- call.limit, call.holding; call.lost, call.silent, call.deadline, call.never, call.waited, call.unsent: reasons
-- -> {text, claim, 1 if it is back in the outbox, text, moment, … of the fires that the release named} each: fires that
-- show no sign of life, in the order of Coordinator.reap. With call.holding only those with limits.
local lost = enter()
if lost then
  return lost
end
local reaped = {}

local function tell(f, again, named)
  local entry = { f.text, cjson.encode(f.c), again and 1 or 0 }
  for _, part in ipairs(named) do
    entry[#entry + 1] = part
  end
  reaped[#reaped + 1] = entry
end

-- Into the outbox as the next attempt: older messages are duplicates from here on.
local function send_again(f)
  local c = f.c
  c.status, c.attempt, c.retries, c.free, c.finished = 'pending', c.attempt + 1, 0, true, nil
  c.sent_as, c.deadline, c.worker, c.started = c.attempt, nil, '', nil
  c.tries = c.tries + 1 -- what its last owner still says of the attempt before confirms nothing
  c.passed, c.put_back, c.unproved, c.ended_as = nil, nil, nil, nil
  c.progressed, c.progress, c.silent_after = nil, nil, nil
  may_be_sent_until(c, c.send_until)
  save(f)
  record(f)
  wake()
end

local function abandon(f, reason)
  f.goes_on = f.c.recover and not f.c.recovered
  local named = finish_as(f, 'abandoned', reason, true)
  if f.goes_on then
    f.c.recovered = true
    keep_failure(f)
    send_again(f)
  end
  tell(f, f.goes_on, named)
end

-- Each judges one fire of its sorted set. True: it is left alone. Nil: it does not belong there.
local function lapsed(f)
  if f.c.status ~= 'running' then
    return nil
  elseif f.c.put_back and now - f.c.put_back < 2 * conf.lease then
    return true -- a delivery that was put back is on its way and will go on with the fire
  end
  abandon(f, call.lost)
  return false
end

local function silent(f)
  if f.c.status ~= 'running' or not f.c.silent_after then
    return nil
  end
  abandon(f, call.silent)
  return false
end

local function not_started(f)
  if f.c.status ~= 'sent' then
    return nil
  elseif f.c.deadline then
    tell(f, false, finish_as(f, 'expired', call.deadline, false))
  else
    tell(f, false, finish_as(f, 'unknown', call.never, false))
  end
  return false
end

-- A limit for people: its schedule needs no name, the fire has it.
local function in_words(limit)
  return limit:match('^(schedule):') or (limit:gsub(':', ' ', 1))
end

-- It holds what it asked for, and nobody could send it. True: somebody may be about to, or a worker has its message.
local function never_sent(f)
  local c = f.c
  if type(c.send_until) ~= 'number' then
    return nil
  elseif c.at_hand or now < common.beats_from or now <= math.max(c.send_until, c.owned + conf.takeover) then
    return true
  end
  tell(f, false, finish_as(f, 'missed', call.unsent, false))
  return false
end

local function waited(f)
  if f.c.status == 'pending' then
    return never_sent(f)
  elseif f.c.status ~= 'waiting' then
    return nil
  end
  local limit = kept_back_by(f)
  tell(f, false, finish_as(f, 'error', call.waited .. ' ' .. in_words(limit and limit.name or ''), true))
  return false
end

local function left_in_hand(f)
  if not f.c.at_hand or (f.c.status ~= 'pending' and f.c.status ~= 'sent') then
    return nil
  end
  end_reservation(f)
  f.c.reason = call.lost
  send_again(f)
  tell(f, true, {})
  return false
end

-- status: of a fire whose claim is gone, to be rebuilt from its history.
local function look(set, text, judge, status)
  local f = load(text) or (status and rebuild(text, status)) or nil
  if f and call.holding and not f.c.limits then
    return true
  end
  local left = f and judge(f)
  if left == nil then
    take_out(set, text)
  end
  return left
end

local function go_through(set, upto, judge, status)
  local offset = 0 -- past those that are left alone
  while judging() and #reaped < call.limit do
    local texts = try(set, '', 'ZRANGEBYSCORE', K(set), '-inf', upto, 'LIMIT', offset, call.limit - #reaped) or {}
    if #texts == 0 then
      break
    end
    for _, text in ipairs(texts) do
      local ok, left = pcall(look, set, text, judge, status)
      if not ok then
        excuse(left, 'fire:' .. text)
      end
      if not ok or left then
        offset = offset + 1
      end
    end
  end
end

local before_now = '(' .. now
go_through('leases', now, lapsed, 'running')
go_through('silent', now, silent)
go_through('limits:sent', before_now, not_started, 'sent')
if not call.holding then
  go_through('sent', before_now, not_started, 'sent')
end
go_through('limits:until', before_now, waited)
go_through('limits:reserved', now, left_in_hand)
if judging() and not quiet() then
  tend()
end
return done(reaped)
