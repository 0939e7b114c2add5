-- call.ids, call.version? -> "done", "gone" or "conflict" each. The history stays until it is too old.
local replies = {}
for i, id in ipairs(call.ids) do
  local key = K('state:' .. id)
  local raw = redis.call('HGET', K('jobs'), id)
  if not raw then
    replies[i] = 'gone'
  elseif call.version and version_of(id, raw) ~= call.version then
    replies[i] = 'conflict'
  else
    local state = redis.call('HMGET', key, 'name', 'kind')
    if state[1] then
      unlist(state[1], id, state[2])
    end
    if state[2] then
      redis.call('ZREM', K('run_times:' .. state[2]), id)
    end
    redis.call('HDEL', K('jobs'), id)
    redis.call('DEL', key)
    replies[i] = 'done'
  end
end
wake()
return plain(replies)
