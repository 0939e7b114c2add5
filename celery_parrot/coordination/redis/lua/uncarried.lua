-- call.limit -> {claim text, entry…}: what happened to fires of rows and is not in their database yet, oldest first.
local lost = enter()
if lost then
  return lost
end
local found = {}
local texts = try('uncarried', '', 'ZRANGEBYSCORE', K('uncarried'), '-inf', '+inf', 'LIMIT', 0, call.limit) or {}
for first = 1, #texts, 500 do
  local last = math.min(first + 499, #texts)
  for i, raw in ipairs(try('carry', '', 'HMGET', K('carry'), unpack(texts, first, last)) or {}) do
    local text = texts[first + i - 1]
    if raw then
      found[#found + 1] = text
      found[#found + 1] = raw
    else
      redis.call('ZREM', K('uncarried'), text)
    end
  end
end
return answer(found)
