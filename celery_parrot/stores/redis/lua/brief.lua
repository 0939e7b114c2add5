-- call.ids -> {JSON, mark, disabled_by} each, or nothing.
local found = {}
for i, id in ipairs(call.ids) do
  local raw = redis.call('HGET', K('jobs'), id)
  if raw then
    local state = redis.call('HMGET', K('state:' .. id), 'last_due', 'disabled_by')
    found[i] = { raw, state[1] or '', state[2] or '' }
  else
    found[i] = {}
  end
end
return plain(found)
