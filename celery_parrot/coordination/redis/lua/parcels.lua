-- call.owner, call.limit, call.after -> JSON of each parcel that call.owner may take, oldest first, behind call.after.
local lost = enter()
if lost then
  return lost
end
local PAGE = 100

local TEXTS_OF = { 'id', 'fire_id', 'schedule_id', 'due_at', 'name', 'about', 'queued_at', 'status' }
local MOMENTS_OF = { 'due_at', 'queued_at', 'sent_at', 'started_at', 'finished_at', 'until', 'failing_since' }

-- One that cannot be read is passed over: whoever asks for a page goes by how many there are on it.
local function sound_parcel(id, raw)
  local parcel = object(raw)
  if not parcel then
    bad('parcels', id, 'holds no JSON object')
  end
  for _, field in ipairs(TEXTS_OF) do
    if type(parcel[field]) ~= 'string' then
      bad('parcels', id, 'has no text as ' .. field)
    end
  end
  if parcel.id ~= id then
    bad('parcels', id, 'is another parcel')
  end
  for _, field in ipairs(MOMENTS_OF) do
    local moment = parcel[field]
    if moment and moment ~= cjson.null and not (type(moment) == 'string' and is_moment(moment)) then
      bad('parcels', id, 'has no moment as ' .. field)
    end
  end
  return raw
end

-- False for one that is another's, or is gone.
local function look(id)
  if not may_take(id, call.owner) then
    return false
  end
  local raw = ask('parcels', 'HGET', K('parcels'), id)
  if not raw then
    redis.call('ZREM', K('parcels:queue'), id)
    try('parcels:taken', id, 'HDEL', K('parcels:taken'), id)
    return false
  end
  return sound_parcel(id, raw)
end

local function key_of(_)
  return 'parcels'
end

-- A queue that was moved out of the way is made anew.
local function mend(queued)
  local kept = try('parcels', '', 'HLEN', K('parcels'))
  if kept and kept > queued then
    for _, id in ipairs(redis.call('HKEYS', K('parcels'))) do
      redis.call('ZADD', K('parcels:queue'), 'NX', now, id)
    end
    touched_sets['parcels:queue'] = true
  end
end

local function behind(after)
  local rank = after ~= '' and redis.call('ZRANK', K('parcels:queue'), after)
  return rank and rank + 1 or 0
end

local found = {}

local function fill(from)
  local ids
  repeat
    ids = redis.call('ZRANGE', K('parcels:queue'), from, from + PAGE - 1)
    local gone = redis.call('ZCARD', K('parcels:queue'))
    for _, raw in ipairs(each(ids, look, key_of, false)) do
      if raw and #found < call.limit then
        found[#found + 1] = raw
      end
    end
    gone = gone - redis.call('ZCARD', K('parcels:queue'))
    from = from + #ids - gone
  until #ids < PAGE or #found >= call.limit
end

local queued = try('parcels:queue', '', 'ZCARD', K('parcels:queue'))
if queued and not quiet() then
  mend(queued)
  fill(behind(call.after))
end
return done(found)
