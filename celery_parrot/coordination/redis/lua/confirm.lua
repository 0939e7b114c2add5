-- call.holds: {text, owner, tries} -> 1 where the fire is now sent, else 0.
local lost = enter()
if lost then
  return lost
end
local replies = {}
for i, hold in ipairs(call.holds) do
  local f = held(hold)
  if f then
    f.c.status, f.c.sent = 'sent', now
    count_sent(f)
    save(f)
    record(f)
  end
  replies[i] = f and 1 or 0
end
return done(replies)
