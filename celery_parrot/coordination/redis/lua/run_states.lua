-- call.ids -> the fields of each state hash.
local lost = enter()
if lost then
  return lost
end
local found = {}
for i, id in ipairs(call.ids) do
  found[i] = redis.call('HGETALL', K('state:' .. id))
end
return answer(found)
