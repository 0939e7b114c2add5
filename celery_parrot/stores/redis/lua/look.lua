-- call.texts (ids, or with call.names names or ids, a name first), or call.after and call.count: a page by name
-- -> {id, JSON, history entries, field, value…} each, or nothing.
local ids = {}
if call.texts then
  for i, text in ipairs(call.texts) do
    ids[i] = call.names and id_of(text) or text
  end
else
  local first = call.after == '' and '-' or '(' .. call.after .. '\1'
  for i, found in ipairs(redis.call('ZRANGEBYLEX', K('names'), first, '+', 'LIMIT', 0, call.count)) do
    ids[i] = found:match('^.-%z(.*)$')
  end
end
local found = {}
for i, id in ipairs(ids) do
  local raw = redis.call('HGET', K('jobs'), id)
  if raw then
    found[i] = { id, raw, redis.call('HLEN', K('fires:' .. id)), redis.call('HGETALL', K('state:' .. id)) }
  else
    found[i] = {}
  end
end
return plain(found)
