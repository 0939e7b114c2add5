-- call.texts (ids, or with call.names names or ids, a name first), or call.after and call.count: a page by name, of
-- call.kind if there is one
-- -> {id, JSON, history entries, {field, value…}, name in the index} each; without JSON or nothing at all if it is gone.
local ids, names = {}, {}
if call.texts then
  for i, text in ipairs(call.texts) do
    ids[i] = call.names and id_of(text) or text
  end
else
  for i, found in ipairs(page(call.kind, call.after, call.count)) do
    names[i], ids[i] = found:match('^(.-)%z(.*)$')
  end
end
local found = {}
for i, id in ipairs(ids) do
  local raw = redis.call('HGET', K('jobs'), id)
  if raw then
    found[i] = told(id, raw, names[i] or '')
  else
    found[i] = names[i] and { id, '', 0, {}, names[i] } or {}
  end
end
return plain(found)
