-- call.texts -> {claim, plan or ""} each, or nothing.
local lost = enter()
if lost then
  return lost
end
local found = {}
for i, text in ipairs(call.texts) do
  local f = load(text)
  found[i] = f and { cjson.encode(f.c), proof_of(f.c, f.id) } or {}
end
return answer(found)
