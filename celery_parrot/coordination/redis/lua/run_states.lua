-- call.ids -> the fields of each state hash.
local lost = enter()
if lost then
  return lost
end
local function look(id)
  return ask(state_of(id), 'HGETALL', K('state:' .. id))
end
return answer(each(call.ids, look, state_of, {}))
