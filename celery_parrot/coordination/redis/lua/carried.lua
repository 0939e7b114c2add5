-- call.items: {text, serial}: in the database now; each is forgotten unless it changed since.
local lost = enter()
if lost then
  return lost
end
local function forget_it(item)
  local raw = ask('carry', 'HGET', K('carry'), item.text)
  local entry = raw and object(raw)
  if entry and entry.serial == item.serial then
    redis.call('HDEL', K('carry'), item.text)
    try('uncarried', item.text, 'ZREM', K('uncarried'), item.text)
  end
end
each(call.items, forget_it, function() return 'carry' end)
return answer({})
