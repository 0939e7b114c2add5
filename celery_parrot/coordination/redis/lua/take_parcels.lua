-- call.owner, call.ids -> 1 where the parcel is call.owner's to send now, else 0. Judged again here: a look is only a look.
local lost = enter()
if lost then
  return lost
end
heartbeat(call.owner)

local function take(id)
  if ask('parcels', 'HEXISTS', K('parcels'), id) == 0 or not may_take(id, call.owner) then
    return 0
  end
  redis.call('HSET', K('parcels:taken'), id, string.format('%.0f:%s', now, call.owner))
  touched_sets['parcels:taken'] = true
  return 1
end
return done(each(call.ids, take, function() return 'parcels' end, 0))
