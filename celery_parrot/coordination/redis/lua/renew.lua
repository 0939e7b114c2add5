-- call.holds: {text, owner, tries} -> 1 where the claim is young again, else 0.
local lost = enter()
if lost then
  return lost
end
local function renew(hold)
  local f = held(hold)
  if f then
    heartbeat(f.c.owner) -- else a long send outlives its heartbeat
    f.c.owned, f.c.free = now, nil
    save(f)
  end
  return f and 1 or 0
end
return done(each(call.holds, renew, claim_of, 0))
