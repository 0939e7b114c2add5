-- call.items: {text, serial}: in the database now; each is forgotten unless it changed since.
local lost = enter()
if lost then
  return lost
end
for _, item in ipairs(call.items) do
  local raw = redis.call('HGET', K('carry'), item.text)
  if raw and cjson.decode(raw).serial == item.serial then
    redis.call('HDEL', K('carry'), item.text)
    redis.call('ZREM', K('uncarried'), item.text)
  end
end
return answer({})
