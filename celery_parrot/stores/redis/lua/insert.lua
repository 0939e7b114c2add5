-- call.items: {id, name, kind, text, mark, at, max_fires?, broken} -> "done" or "exists" each.
local replies = {}
for i, item in ipairs(call.items) do
  local key = K('state:' .. item.id)
  if redis.call('HEXISTS', K('jobs'), item.id) == 1 or redis.call('EXISTS', key) == 1 or id_of(item.name) then
    replies[i] = 'exists'
  else
    redis.call('HSET', K('jobs'), item.id, item.text)
    list(item.name, item.id, item.kind)
    redis.call('HSET', key, 'last_due', item.mark, 'when', JOB, 'name', item.name, 'version', 1,
      'updated_at', iso_now())
    if item.broken ~= '' then
      put_aside(item.id, item.kind, item.at, item.broken)
    else
      place(item.id, item.kind, item.at, '', 0, item.max_fires)
    end
    replies[i] = 'done'
  end
end
wake()
return plain(replies)
