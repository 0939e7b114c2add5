-- Claims, outbox, leases, history and run state: what most scripts share.
--
-- fire:{text}   claim, JSON; expires claim_ttl after its last change, ended_ttl after its outcome
-- pending       outbox: sorted set of claim texts by commit time
-- leases        running fires: sorted set of claim texts by end of lease
-- seen          beats: sorted set of owners by last sign of life
-- fires:{id}    history: hash moment -> JSON
-- state:{id}    run state: hash
--
-- A fire here is a table: text ("{id}:{moment}"), id, moment, was (status when loaded), c (the claim).

local ON_THE_WAY = { pending = true, waiting = true, sent = true, running = true }
local FAILURE = { error = true, target_missing = true, abandoned = true }
local AUTOMATIC = { schedule = true, catch_up = true }

local touched_history, touched_sets = {}, {}

local function fire_of(text, raw)
  local c = cjson.decode(raw)
  return { text = text, id = text:sub(1, #text - #c.moment - 1), moment = c.moment, was = c.status, c = c }
end

local function load(text)
  local raw = redis.call('GET', K('fire:' .. text))
  if raw then
    return fire_of(text, raw)
  end
  return nil
end

-- The claim, if it is pending exactly as its holder knows it.
local function held(hold)
  local f = load(hold.text)
  if f and f.c.status == 'pending' and f.c.owner == hold.owner and f.c.tries == hold.tries then
    return f
  end
  return nil
end

-- Write the claim; outbox and leases follow its status.
local function save(f)
  local c = f.c
  if c.status == 'pending' then
    redis.call('ZADD', K('pending'), c.committed, f.text)
    touched_sets.pending = true
  else
    c.free = nil
    if f.was == 'pending' then
      redis.call('ZREM', K('pending'), f.text)
    end
  end
  if c.status == 'running' then
    redis.call('ZADD', K('leases'), c.lease, f.text)
    touched_sets.leases = true
  else
    c.lease = nil
    c.token = ''
    if f.was == 'running' then
      redis.call('ZREM', K('leases'), f.text)
    end
  end
  local life = ON_THE_WAY[c.status] and conf.claim_ttl or conf.ended_ttl
  redis.call('SET', K('fire:' .. f.text), cjson.encode(c), 'PX', life)
  f.was = c.status
end

-- --- history ----------------------------------------------------------------------------------------------------

local function write_record(id, moment, entry)
  redis.call('HSET', K('fires:' .. id), moment, cjson.encode(entry))
  touched_history[id] = true
end

-- The fire's entry as its claim is now.
local function record(f, output, err)
  local c = f.c
  write_record(f.id, f.moment, {
    name = c.name, kind = c.kind, origin = c.origin, status = c.status, reason = c.reason, attempt = c.attempt,
    beat = c.owner, worker = c.worker, committed = c.committed, sent = c.sent, started = c.started,
    finished = c.finished, output = output, error = err, late = c.late,
  })
end

local function by_time(moments)
  local keys = {}
  for _, moment in ipairs(moments) do
    keys[moment] = sortable(moment)
  end
  table.sort(moments, function(a, b) return keys[a] < keys[b] end)
  return keys
end

-- Cut back to the limit, a batch at a time so that most calls cost one HLEN.
local function prune(id)
  local key = K('fires:' .. id)
  local surplus = redis.call('HLEN', key) - conf.history_limit
  if surplus <= math.max(math.floor(conf.history_limit / 10), 1) then
    return
  end
  local moments = redis.call('HKEYS', key)
  by_time(moments)
  for first = 1, surplus, 500 do
    redis.call('HDEL', key, unpack(moments, first, math.min(first + 499, surplus)))
  end
end

-- Once a day a schedule: drop what is older than the history is kept.
local function prune_old(id)
  local key, cutoff = K('fires:' .. id), sortable(iso(now - conf.history_ms))
  for _, moment in ipairs(redis.call('HKEYS', key)) do
    if sortable(moment) < cutoff then
      local entry = cjson.decode(redis.call('HGET', key, moment))
      if not (entry['until'] and sortable(entry['until']) >= cutoff) then
        redis.call('HDEL', key, moment)
      end
    end
  end
end

local function entry_of(id, moment)
  local raw = redis.call('HGET', K('fires:' .. id), moment)
  return raw and cjson.decode(raw) or nil
end

-- A claim that expired on the way (nobody looked for its whole life), rebuilt from its history entry if that has the
-- status `status`, so that what became of it is recorded after all.
local function rebuild(text, status)
  local moment = text:match('(%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.?%d*%+00:00.*)$')
  local id = moment and text:sub(1, #text - #moment - 1)
  local entry = moment and entry_of(id, moment)
  if not entry or entry.status ~= status then
    return nil
  end
  local f = { text = text, id = id, moment = moment, was = status, c = {
    moment = moment, name = entry.name, kind = entry.kind, origin = entry.origin, status = status,
    owner = entry.beat, owned = entry.committed, committed = entry.committed, tries = 0, attempt = entry.attempt,
    sent_as = entry.attempt, retries = 0, token = '', worker = entry.worker, reason = '', sent = entry.sent,
    started = entry.started, lease = now, counted = entry.sent and true or nil,
  } }
  save(f)
  return f
end

-- --- run state ---------------------------------------------------------------------------------------------------

-- Only schedules that are registered have one: a stray delivery must not leave a permanent key behind.
local function has_state(id)
  return redis.call('HEXISTS', K('state:' .. id), 'last_due') == 1
end

-- last_run, and run_count once a fire however often it is sent.
local function count_sent(f)
  if f.c.counted then
    return
  end
  f.c.counted = true
  if has_state(f.id) then
    redis.call('HSET', K('state:' .. f.id), 'last_run', iso_now())
    redis.call('HINCRBY', K('state:' .. f.id), 'run_count', 1)
  end
end

-- A message of it has arrived, so it was sent, whatever the beat knows.
local function was_sent(f)
  f.c.sent = f.c.sent or now
  count_sent(f)
end

-- Run state and history of a fire that has just ended. Skipped, missed and expired leave the run state alone.
local function outcome(f, output, err, counted)
  local c, key = f.c, K('state:' .. f.id)
  if (c.status == 'success' or FAILURE[c.status]) and has_state(f.id) then
    if c.status == 'success' then
      redis.call('HSET', key, 'last_status', 'success', 'last_result_at', iso_now(), 'consecutive_failures', 0)
      redis.call('HDEL', key, 'last_error')
      if output then
        redis.call('HSET', key, 'last_result', output)
      else
        redis.call('HDEL', key, 'last_result')
      end
    else
      local status = c.status == 'target_missing' and 'target_missing' or 'error'
      redis.call('HSET', key, 'last_status', status, 'last_error', err or c.reason, 'last_error_at', iso_now())
      if counted then
        redis.call('HINCRBY', key, 'consecutive_failures', 1)
      end
    end
  end
  record(f, output, err)
end

-- The fire has ended: give back its limits and name the waiting fires that now fit. There are no limits here yet;
-- this is the one place that finish, reap, drop and expiry go through, in the same step as the outcome.
local function release(f)
  return {}
end

-- --- who may take ------------------------------------------------------------------------------------------------

local alive_cache = {}

local function alive(owner)
  if alive_cache[owner] == nil then
    local seen = redis.call('ZSCORE', K('seen'), owner)
    alive_cache[owner] = (seen and now - tonumber(seen) <= conf.heartbeat) and true or false
  end
  return alive_cache[owner]
end

local function heartbeat(owner)
  redis.call('ZADD', K('seen'), now, owner)
  touched_sets.seen = true
end

-- Whether `who` may take this pending claim now.
local function takeable(c, who)
  local age = now - c.owned
  if quiet() then
    return false
  end
  if c.free then
    return true
  end
  -- Its own: that judges nobody, so there is no need to wait for judge_from.
  if c.owner == who and age >= math.min(2 ^ math.min(c.tries, 30) * 1000, conf.retry_cap) then
    return true
  end
  if not judging() then
    return false
  end
  return not alive(c.owner) or age >= conf.takeover
end

-- End of every script that writes: give all it touched a life, then answer.
local function done(items)
  for id in pairs(touched_history) do
    redis.call('PEXPIRE', K('fires:' .. id), conf.history_ms)
    prune(id)
  end
  for name in pairs(touched_sets) do
    redis.call('PEXPIRE', K(name), conf.keep)
  end
  return answer(items)
end
