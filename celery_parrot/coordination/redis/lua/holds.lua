-- call.ids -> {disabled_by or "", note, held_at, last_due} each.
local lost = enter()
if lost then
  return lost
end
local found = {}
for i, id in ipairs(call.ids) do
  local state = redis.call('HMGET', K('state:' .. id), 'disabled_by', 'note', 'held_at', 'last_due')
  found[i] = { state[1] or '', state[2] or '', state[3] or '', state[4] or '' }
end
return answer(found)
