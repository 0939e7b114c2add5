-- call.drops: {text, owner, tries, status, reason} -> 1 where the pending fire has ended so, else 0.
-- What max_fires had reserved for it is given back, unless it was sent before.
local lost = enter()
if lost then
  return lost
end
local function drop_it(drop)
  local f = held(drop)
  if f then
    finish_as(f, drop.status, drop.reason, true)
  end
  return f and 1 or 0
end
return done(each(call.drops, drop_it, claim_of, 0))
