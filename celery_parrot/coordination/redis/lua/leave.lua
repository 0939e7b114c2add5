-- call.owner stops in good order: forget it, and let anybody take what it has in the outbox.
local lost = enter()
if lost then
  return lost
end
redis.call('ZREM', K('seen'), call.owner)
redis.call('HDEL', K('beats'), call.owner)
for _, text in ipairs(redis.call('ZRANGE', K('pending'), 0, -1)) do
  local f = load(text)
  if f and f.c.owner == call.owner and f.c.status == 'pending' then
    f.c.free = true
    save(f)
  end
end
return done({})
