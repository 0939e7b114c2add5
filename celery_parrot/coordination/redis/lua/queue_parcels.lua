-- call.parcels: what a database decided, as Parcel.to_json writes it. Their ids are good once.
local lost = enter()
if lost then
  return lost
end
for _, parcel in ipairs(call.parcels) do
  queue(parcel)
end
return done({})
