-- call.ids, call.by, call.note -> 1 where a schedule with a mark is now held, 0 where there is none.
local lost = enter()
if lost then
  return lost
end
local replies = {}
for i, id in ipairs(call.ids) do
  local known = has_state(id)
  local key = K('state:' .. id)
  -- what a person paused is not taken over by failures
  if known and not (call.by ~= 'person' and (redis.call('HGET', key, 'disabled_by') or '') == 'person') then
    redis.call('HSET', key, 'disabled_by', call.by, 'note', call.note, 'held_at', iso_now())
  end
  replies[i] = known and 1 or 0
end
redis.call('PUBLISH', K('wake'), '1')
return answer(replies)
