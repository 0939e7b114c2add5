-- call.items: {id, sha, mark, held (as read), name, kind, text?, version?, new_mark, at, max_fires?, broken, release,
-- ranges} -> "done", "gone", "exists" (the name) or "changed" (since it was read: work it out anew) each.
local function edit(item)
  local key = K('state:' .. item.id)
  local raw = redis.call('HGET', K('jobs'), item.id)
  if not raw then
    return 'gone'
  end
  local state = redis.call('HMGET', key, 'last_due', 'disabled_by', 'auto_count', 'name', 'kind')
  local held = state[2] or ''
  if redis.sha1hex(raw) ~= item.sha or (state[1] or '') ~= item.mark or held ~= item.held then
    return 'changed'
  end
  if item.text then
    local other = id_of(item.name)
    if other and other ~= item.id then
      return 'exists'
    end
    if state[4] then
      unlist(state[4], item.id, state[5])
    end
    list(item.name, item.id, item.kind)
    redis.call('HSET', K('jobs'), item.id, item.text)
    redis.call('HSET', key, 'name', item.name, 'version', item.version, 'updated_at', iso_now())
  end
  for _, range in ipairs(item.ranges) do
    not_fired(item, range, '')
  end
  redis.call('HSET', key, 'last_due', item.new_mark, 'when', JOB)
  redis.call('HDEL', key, 'broken')
  if item.release then
    redis.call('HDEL', key, 'disabled_by', 'note', 'held_at', 'failing_since')
    redis.call('HSET', key, 'consecutive_failures', 0)
    held = ''
  end
  if state[5] and state[5] ~= item.kind then
    redis.call('ZREM', K('run_times:' .. state[5]), item.id)
  end
  if item.broken ~= '' and held == '' then
    put_aside(item.id, item.kind, item.at, item.broken)
  else
    place(item.id, item.kind, item.broken ~= '' and '' or item.at, held, tonumber(state[3] or '0'), item.max_fires)
  end
  return 'done'
end

local replies = {}
for i, item in ipairs(call.items) do
  replies[i] = edit(item)
end
settle()
wake()
return plain(replies)
