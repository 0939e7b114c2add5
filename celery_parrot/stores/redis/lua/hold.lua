-- call.ids, call.by, call.note, call.version? -> "done", "gone" or "conflict" each.
local replies = {}
for i, id in ipairs(call.ids) do
  local key = K('state:' .. id)
  local raw = redis.call('HGET', K('jobs'), id)
  if not raw then
    replies[i] = 'gone'
  elseif call.version and version_of(id, raw) ~= call.version then
    replies[i] = 'conflict'
  else
    local state = redis.call('HMGET', key, 'disabled_by', 'kind')
    -- what a person paused is not taken over by failures
    if call.by == 'person' or (state[1] or '') ~= 'person' then
      redis.call('HSET', key, 'disabled_by', call.by, 'note', call.note, 'held_at', iso_now())
    end
    if state[2] then
      redis.call('ZREM', K('run_times:' .. state[2]), id)
    end
    replies[i] = 'done'
  end
end
wake()
return plain(replies)
