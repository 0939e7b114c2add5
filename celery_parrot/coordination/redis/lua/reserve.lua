-- call.items: {text, attempt, retries, worker} -> 1 where the message is now noted as in the hand of that worker, for
-- one lease time, else 0.
local lost = enter()
if lost then
  return lost
end

local BEFORE_START = { pending = true, sent = true }

local function reserve(item)
  local f = load(item.text)
  local c = f and f.c
  if not c or not c.granted or not c.limits or not BEFORE_START[c.status] then
    return 0
  elseif item.attempt < c.sent_as or (item.attempt == c.sent_as and item.retries < c.retries) then
    return 0 -- it is not the newest message
  end
  ask('limits:reserved', 'ZADD', K('limits:reserved'), now + conf.lease, f.text)
  touched_sets['limits:reserved'] = true
  if c.at_hand ~= item.worker then
    c.at_hand = item.worker
    save(f)
  end
  return 1
end

return done(each(call.items, reserve, claim_of, 0))
