-- call.token; call.texts -> 1 where a prepared fire was taken back as if it had never been claimed, else 0.
-- The token decides, not the owner: what a row refuted nobody may send, whoever has taken it since.
local lost = enter()
if lost then
  return lost
end
local function discard(text)
  local f = load(text)
  local refuted = f and f.c.status == 'pending' and f.c.proof == call.token
  if refuted then
    next_turns(let_go(f))
    forget(f)
  end
  return refuted and 1 or 0
end
return done(each(call.texts, discard, claim_of, 0))
