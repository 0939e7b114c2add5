-- call.texts -> each claim, or an empty text.
local lost = enter()
if lost then
  return lost
end
local found = {}
for i, text in ipairs(call.texts) do
  found[i] = redis.call('GET', K('fire:' .. text)) or ''
end
return answer(found)
