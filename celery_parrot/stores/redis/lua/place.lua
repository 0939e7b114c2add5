-- call.items: {id, kind, found_in, sha, mark, at (ms or ""), max_fires?, broken}
-- What a scan found in the wrong place, or able to run again, or not any more; only if it still is as it was read.
local function put(item)
  local key = K('state:' .. item.id)
  local raw = redis.call('HGET', K('jobs'), item.id)
  local state = ask(state_of(item), 'HMGET', key, 'last_due', 'disabled_by', 'auto_count')
  if raw and redis.sha1hex(raw) == item.sha and state[1] == item.mark then
    if item.found_in ~= item.kind then
      try('run_times:' .. item.found_in, item.id, 'ZREM', K('run_times:' .. item.found_in), item.id)
      local name = redis.call('HGET', key, 'name')
      if name and try('names', '', 'ZSCORE', K('names'), member(name, item.id)) then
        unlist(name, item.id, item.found_in)
        list(name, item.id, item.kind)
      end
    end
    if item.broken ~= '' then
      put_aside(item.id, item.kind, item.at, item.broken)
    else
      redis.call('HDEL', key, 'broken')
      place(item.id, item.kind, item.at, state[2] or '', counter(item.id, 'auto_count', state[3]), item.max_fires)
    end
  end
end
each(call.items, put, state_of)
return plain({})
