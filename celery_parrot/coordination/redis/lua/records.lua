-- History and run state: what is written down when a fire moves on.
--
-- fires:{id}    history: hash moment -> JSON
-- state:{id}    run state: hash
-- carry         hash: claim text -> JSON: what happened to fires of rows and is not in the database yet
-- uncarried     sorted set: the same claim texts, oldest first

-- --- history ----------------------------------------------------------------------------------------------------

-- A fire does not wait for its history to be mended.
local function write_record(id, moment, entry)
  if try('fires:' .. id, moment, 'HSET', K('fires:' .. id), moment, cjson.encode(entry)) then
    touched_history[id] = entry.store or 'code'
  end
end

-- Nil and true for one that is there but cannot be read.
local function entry_of(id, moment)
  local raw = try('fires:' .. id, moment, 'HGET', K('fires:' .. id), moment)
  local entry = raw and object(raw) or nil
  if raw and not entry then
    fault('fires:' .. id, moment, 'holds no JSON object')
  end
  return entry, not entry and raw ~= false
end

-- Only schedules that are registered have one: a stray delivery must not leave a permanent key behind.
local function has_state(id)
  return try('state:' .. id, '', 'HEXISTS', K('state:' .. id), 'last_due') == 1
end

local MOST_STRAYS = 1000

-- Tell the database of a fire of a row. A fire that came back by its message alone may be a row's, if nothing is known
-- of its schedule here; few of those wait, as there may be no database to ask.
local function carry(f, entry)
  local c = f.c
  if (c.store ~= 'db' and not c.stray) or c.unsaid then -- first what the attempt before came to, see keep_failure
    return
  end
  if c.store ~= 'db' and (has_state(f.id) or (try('uncarried', '', 'ZCARD', K('uncarried')) or MOST_STRAYS) >= MOST_STRAYS) then
    return
  end
  entry.moment, entry.serial = f.moment, c.serial
  if not try('carry', f.text, 'HSET', K('carry'), f.text, cjson.encode(entry)) then
    return
  end
  touched_sets.carry = true
  f.queued = true
  if try('uncarried', f.text, 'ZADD', K('uncarried'), 'NX', c.serial, f.text) then
    touched_sets.uncarried = true
  end
end

-- The fire is about to go on after a failure: its row is to hear of that before it hears of anything else.
local function keep_failure(f)
  if f.queued then
    f.c.unsaid = f.c.serial
  end
end

-- What became of a fire of a row must reach its database: it does not end while there is no way there.
local function may_carry(f)
  if f.c.store == 'db' then
    ask('carry', 'HLEN', K('carry'))
    ask('uncarried', 'ZCARD', K('uncarried'))
  end
end

-- True or nil, as c.told: there is an entry, of the same fire or of due times that were not fired, which may have notes.
local function has_entry(id, moment)
  return try('fires:' .. id, moment, 'HEXISTS', K('fires:' .. id), moment) == 1 or nil
end

-- What became of telling about it. Once there may be something, c.told says so.
local function notes_of(f)
  local notes = f.c.told and (entry_of(f.id, f.moment) or {}).delivery or nil
  for about, note in pairs(f.notes or {}) do
    notes = notes or {}
    notes[about] = note
  end
  return notes
end

-- The fire's entry as its claim is now. A row knows of its pending fires; everything later is carried there.
local function record(f, output, err, uncounted)
  local c = f.c
  local entry = {
    name = c.name, kind = c.kind, origin = c.origin, status = c.status, reason = c.reason, attempt = c.attempt,
    beat = c.owner, worker = c.worker, committed = c.committed, sent = c.sent, started = c.started,
    finished = c.finished, output = output, error = err, late = c.late, store = c.store, proof = c.proof,
    uncounted = uncounted and true or nil, waited_for = c.waited_for, waited_from = c.waited_from,
    waited_until = c.waited_until, held_by = c.held_by, traceback = f.traceback,
    delivery = notes_of(f),
  }
  write_record(f.id, f.moment, entry)
  if c.status ~= 'pending' or DEMANDED[c.origin] then
    carry(f, entry)
  end
end

-- The moments of a history, oldest first, and what to compare them by.
local function moments_of(id)
  local moments, keys = {}, {}
  for _, moment in ipairs(try('fires:' .. id, '', 'HKEYS', K('fires:' .. id)) or {}) do
    keys[moment] = sortable(moment)
    if keys[moment] then
      moments[#moments + 1] = moment
    else
      fault('fires:' .. id, moment, 'is no moment')
    end
  end
  table.sort(moments, function(a, b) return keys[a] < keys[b] end)
  return moments, keys
end

-- Cut back to the limit, a batch at a time so that most calls cost one HLEN.
local function prune(id, limit)
  local key = K('fires:' .. id)
  local surplus = (try('fires:' .. id, '', 'HLEN', key) or 0) - limit
  if surplus <= math.max(math.floor(limit / 10), 1) then
    return
  end
  local moments = moments_of(id)
  surplus = math.min(surplus, #moments)
  for first = 1, surplus, 500 do
    redis.call('HDEL', key, unpack(moments, first, math.min(first + 499, surplus)))
  end
end

-- Once a day a schedule: drop what is older than the history is kept.
local function prune_old(id)
  local key, cutoff = K('fires:' .. id), sortable(iso(now - conf.history_ms))
  local moments, keys = moments_of(id)
  for _, moment in ipairs(moments) do
    if keys[moment] >= cutoff then
      break
    end
    local entry = object(redis.call('HGET', key, moment))
    if not entry then
      fault('fires:' .. id, moment, 'holds no JSON object')
    elseif not (type(entry['until']) == 'string' and (sortable(entry['until']) or '') >= cutoff) then
      redis.call('HDEL', key, moment)
    end
  end
end

-- moment, entry, moment, entry, … strictly before `before` if given, newest due time first.
local function history(id, limit, before)
  local key = K('fires:' .. id)
  local moments, keys = moments_of(id)
  before = before and sortable(before)
  local wanted = {}
  for i = #moments, 1, -1 do
    if #wanted >= limit then
      break
    end
    if not before or keys[moments[i]] < before then
      wanted[#wanted + 1] = moments[i]
    end
  end
  local found = {}
  for first = 1, #wanted, 500 do
    local last = math.min(first + 499, #wanted)
    for i, raw in ipairs(redis.call('HMGET', key, unpack(wanted, first, last))) do
      found[#found + 1] = wanted[first + i - 1]
      found[#found + 1] = raw
    end
  end
  return found
end

local A_FIRE = '(%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.?%d*%+00:00.*)$'

-- Take out of the outbox or the leases what has neither claim nor history.
local function take_out(set, text)
  if not text:match(A_FIRE) then
    fault(set, text, 'names no fire and was taken out')
  end
  redis.call('ZREM', K(set), text)
end

-- A claim that expired on the way (nobody looked for its whole life), rebuilt from its history entry if that has the
-- status `status`, so that what became of it is recorded after all.
local function rebuild(text, status)
  local moment = text:match(A_FIRE)
  local id = moment and text:sub(1, #text - #moment - 1)
  local entry = moment and entry_of(id, moment)
  if entry and redis.call('EXISTS', K('fire:' .. text)) == 1 then -- a value of another type is not overwritten
    bad('fire:' .. text, '', 'holds a value of another type')
  end
  if not entry or entry.status ~= status then
    return nil
  end
  local f = { text = text, id = id, moment = moment, was = status, c = {
    moment = moment, name = entry.name, kind = entry.kind, origin = entry.origin, status = status,
    owner = entry.beat, owned = entry.committed, committed = entry.committed, tries = 0, attempt = entry.attempt,
    sent_as = entry.attempt, retries = 0, token = '', worker = entry.worker, reason = '', sent = entry.sent,
    started = entry.started, lease = now, counted = entry.sent and true or nil, store = entry.store,
    proof = entry.proof, tells = TELLS_ALL, told = entry.delivery and true or nil,
  } }
  sound(text, f.c)
  save(f)
  return f
end

-- --- run state ---------------------------------------------------------------------------------------------------

-- last_run, and run_count once a fire however often it is sent.
local function count_sent(f)
  if f.c.counted then
    return
  end
  f.c.counted = true
  if has_state(f.id) then
    redis.call('HSET', K('state:' .. f.id), 'last_run', iso_now())
    try('state:' .. f.id, 'run_count', 'HINCRBY', K('state:' .. f.id), 'run_count', 1)
  end
end

-- A message of it has arrived, so it was sent, whatever the beat knows.
local function was_sent(f)
  f.c.sent = f.c.sent or now
  count_sent(f)
end

-- --- not fired ---------------------------------------------------------------------------------------------------

-- One entry for due times that are decided without firing. Never replaces that of a fire.
local function not_fired(plan, range, owner)
  local before, unreadable = entry_of(plan.id, range.first)
  if unreadable or (before and before.committed) then
    return
  end
  write_record(plan.id, range.first, {
    name = plan.name, kind = plan.kind, origin = 'schedule', status = range.status, reason = range.reason,
    attempt = 1, beat = owner, worker = '', finished = now, count = range.count,
    ['until'] = range.count > 1 and range.last or nil,
  })
end
