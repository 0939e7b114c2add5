-- call.texts -> {claim, plan or ""} each, or nothing.
local lost = enter()
if lost then
  return lost
end
local function look(text)
  local f = load(text)
  return f and { cjson.encode(f.c), proof_of(f.c, f.id) } or {}
end
return answer(each(call.texts, look, claim_of, {}))
