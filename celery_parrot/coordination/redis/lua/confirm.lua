-- call.holds: {text, owner, tries, deadline?} -> 1 where the fire is now sent, else 0.
local lost = enter()
if lost then
  return lost
end
local function confirm(hold)
  local f = held(hold)
  if f then
    f.c.status, f.c.sent, f.c.deadline = 'sent', now, hold.deadline
    count_sent(f)
    save(f)
    record(f)
  end
  return f and 1 or 0
end
return done(each(call.holds, confirm, claim_of, 0))
