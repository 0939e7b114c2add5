-- call.id, call.limit, call.before? -> moment, entry, moment, entry, … newest due time first.
local lost = enter()
if lost then
  return lost
end
local key = K('fires:' .. call.id)
local moments = redis.call('HKEYS', key)
local keys = by_time(moments)
local before = call.before and sortable(call.before)
local wanted = {}
for i = #moments, 1, -1 do
  if #wanted >= call.limit then
    break
  end
  if not before or keys[moments[i]] < before then
    wanted[#wanted + 1] = moments[i]
  end
end
local found = {}
for first = 1, #wanted, 500 do
  local last = math.min(first + 499, #wanted)
  for i, raw in ipairs(redis.call('HMGET', key, unpack(wanted, first, last))) do
    found[#found + 1] = wanted[first + i - 1]
    found[#found + 1] = raw
  end
end
return answer(found)
