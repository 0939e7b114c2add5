-- call.ids: their task is with the broker, or there is nobody to tell. The ids are remembered like claims.
local lost = enter()
if lost then
  return lost
end
for _, id in ipairs(call.ids) do
  if try('parcels', id, 'HDEL', K('parcels'), id) ~= 0 then
    redis.call('SET', K('parcel:' .. id), '', 'PX', conf.claim_ttl)
  end
  try('parcels:queue', id, 'ZREM', K('parcels:queue'), id)
  try('parcels:taken', id, 'HDEL', K('parcels:taken'), id)
end
return done({})
