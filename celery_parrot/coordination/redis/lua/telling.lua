-- What is to be told to somebody: parcels, queued in the step that records what there is to tell.
--
-- parcels        hash: id -> JSON, as Parcel.to_json writes it
-- parcels:queue  sorted set: ids by when they were queued
-- parcels:taken  hash: id -> "{ms}:{owner}", who sends it and since when
-- parcel:{id}    one that was sent and is not queued again; expires like a claim

local TELLS_ALL = { 'failure', 'missed', 'success' } -- of a fire that is known by its message alone

local function tells(wanted, about)
  for _, one in ipairs(type(wanted) == 'table' and wanted or {}) do
    if one == about then
      return true
    end
  end
  return false
end

-- An id is good once. No outcome waits for its parcel: where the key is of another type it is lost, and that is told.
local function queue(parcel)
  local id = parcel.id
  if redis.call('EXISTS', K('parcel:' .. id)) == 1 or try('parcels', id, 'HEXISTS', K('parcels'), id) ~= 0 then
    return
  end
  parcel.queued_at = iso_now()
  redis.call('HSET', K('parcels'), id, cjson.encode(parcel))
  try('parcels:queue', id, 'ZADD', K('parcels:queue'), now, id)
  touched_sets.parcels, touched_sets['parcels:queue'] = true, true
end

local MOST_PARCELS = 10000

-- So many wait, perhaps because no beat sends any, that one more is given up. Not an alert, nor what a row decided.
local function too_many()
  return (try('parcels', '', 'HLEN', K('parcels')) or 0) >= MOST_PARCELS
end

local function parcel_of(id, moment, about)
  local fire = fire_id(id .. ':' .. moment)
  local due_at, nonce = moment:match('^(.-%+00:00):?(.*)$')
  return { id = fire .. ':' .. about, fire_id = fire, schedule_id = id, due_at = due_at, nonce = nonce, about = about }
end

local function stamp(ms)
  return ms and iso(ms)
end

-- What became of a fire, with how many failures in a row there are, and since when.
local function tell_of(f, about, output, err, failures, since)
  local c, parcel = f.c, parcel_of(f.id, f.moment, about)
  parcel.name, parcel.kind, parcel.origin, parcel.status = c.name, c.kind, c.origin, c.status
  parcel.reason, parcel.attempt, parcel.output, parcel.error = c.reason, c.attempt, output, err
  parcel.sent_at, parcel.started_at, parcel.finished_at = stamp(c.sent), stamp(c.started), stamp(c.finished)
  parcel.failures, parcel.failing_since = failures, since
  queue(parcel)
end

-- What a history entry keeps of a parcel that was given up at once.
local function given_up()
  local report = { callback = 'queue', status = 'failed', at = iso_now(), tries = 0,
    error = MOST_PARCELS .. ' others wait to be sent already' }
  return { status = 'failed', at = iso_now(), tries = 0, callbacks = '[' .. cjson.encode(report) .. ']' }
end

-- Due times that were missed, one parcel a range.
local function tell_range(plan, range)
  if range.status ~= 'missed' or not tells(plan.tells, 'missed') or too_many() then
    return
  end
  local parcel = parcel_of(plan.id, range.first, 'missed')
  parcel.name, parcel.kind, parcel.origin, parcel.status = plan.name, plan.kind, 'schedule', range.status
  parcel.reason, parcel.count, parcel.finished_at = range.reason, range.count, iso_now()
  parcel['until'] = range.count > 1 and range.last or nil
  queue(parcel)
end
