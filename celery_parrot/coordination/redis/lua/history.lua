-- call.id, call.limit, call.before? -> moment, entry, moment, entry, … newest due time first.
local lost = enter()
if lost then
  return lost
end
return answer(history(call.id, call.limit, call.before))
