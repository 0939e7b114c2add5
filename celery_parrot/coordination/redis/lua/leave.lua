-- call.owner stops in good order: forget it, and let anybody take what it has in the outbox.
local lost = enter(true)
if lost then
  return lost
end
try('seen', call.owner, 'ZREM', K('seen'), call.owner)
try('beats', call.owner, 'HDEL', K('beats'), call.owner)
local function free(text)
  local f = load(text)
  if f and f.c.owner == call.owner and f.c.status == 'pending' then
    f.c.free = true
    save(f)
  end
end
each(redis.call('ZRANGE', K('pending'), 0, -1), free, claim_of)
return done({})
