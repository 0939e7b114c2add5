-- call.texts (ids, or with call.names names or ids, a name first), or call.after and call.count: a page by name, of
-- call.kind if there is one; with call.text (lower case) what has it in neither name nor JSON is left out, with call.waits
-- what is neither held nor off
-- -> {id, JSON, history entries, {field, value…}, name in the index} each; without JSON or nothing at all if it is gone.
local ids, names = {}, {}
if call.texts then
  for i, text in ipairs(call.texts) do
    ids[i] = call.names and id_of(text) or text
  end
else
  local index = K(call.kind and 'names:' .. call.kind or 'names')
  local first = call.after == '' and '-' or '(' .. call.after .. '\1'
  for i, found in ipairs(redis.call('ZRANGEBYLEX', index, first, '+', 'LIMIT', 0, call.count)) do
    names[i], ids[i] = found:match('^(.-)%z(.*)$')
  end
end
local function matches(name, raw)
  return not call.text or name:lower():find(call.text, 1, true) or raw:lower():find(call.text, 1, true)
end

-- Whether it may be paused or disabled: somebody holds it, or its JSON may say that it is off.
local function may_wait(id, raw)
  return not call.waits or raw:find('"enabled"%s*:%s*false') or redis.call('HEXISTS', K('state:' .. id), 'disabled_by') == 1
end

local found = {}
for i, id in ipairs(ids) do
  local raw = redis.call('HGET', K('jobs'), id)
  if raw and not (matches(names[i] or '', raw) and may_wait(id, raw)) then
    -- The last one says where the next page begins.
    found[i] = i == #ids and { id, '', 0, {}, names[i] } or {}
  elseif raw then
    local entries = try('fires:' .. id, '', 'HLEN', K('fires:' .. id)) or 0
    local state = try('state:' .. id, '', 'HGETALL', K('state:' .. id)) or {}
    found[i] = { id, raw, entries, state, names[i] or '' }
  else
    found[i] = names[i] and { id, '', 0, {}, names[i] } or {}
  end
end
return plain(found)
