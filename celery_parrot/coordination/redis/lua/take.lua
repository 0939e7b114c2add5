-- call.owner; call.holds: {text, owner, tries} -> {claim, plan or ""} where it passed to call.owner, else nothing.
-- Judged again here: a sweep is only a look.
local lost = enter(true)
if lost then
  return lost
end
heartbeat(call.owner)
local function take(hold)
  local f = held(hold)
  if f and takeable(f.c, call.owner) then
    f.c.owner, f.c.owned, f.c.tries, f.c.free = call.owner, now, f.c.tries + 1, nil
    save(f)
    return { cjson.encode(f.c), proof_of(f.c, f.id) }
  end
  return {}
end
return done(each(call.holds, take, claim_of, {}))
