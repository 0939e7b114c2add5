-- call.ids -> {disabled_by or "", note, held_at, last_due} each.
local lost = enter()
if lost then
  return lost
end
local function look(id)
  local state = ask(state_of(id), 'HMGET', K('state:' .. id), 'disabled_by', 'note', 'held_at', 'last_due')
  return { state[1] or '', state[2] or '', state[3] or '', moment_of(id, state[4]) or '' }
end
return answer(each(call.ids, look, state_of, { '', '', '', '' }))
