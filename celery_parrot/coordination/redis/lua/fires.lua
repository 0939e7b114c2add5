-- Claims, outbox, leases, history and run state: what most scripts share.
--
-- fire:{text}   claim, JSON; expires claim_ttl after its last change, ended_ttl after its outcome
-- pending       outbox: sorted set of claim texts by commit time
-- leases        running fires: sorted set of claim texts by end of lease
-- seen          beats: sorted set of owners by last sign of life
-- fires:{id}    history: hash moment -> JSON
-- state:{id}    run state: hash
-- proofs        hash: "{token}:{id}" -> plan of a commit that a row in a database decides, "#{token}:{id}" -> how many
--               pending claims still carry it
-- carry         hash: claim text -> JSON: what happened to fires of such rows and is not in the database yet
-- uncarried     sorted set: the same claim texts, oldest first
--
-- A fire here is a table: text ("{id}:{moment}"), id, moment, was (status when loaded), c (the claim).

local ON_THE_WAY = { pending = true, waiting = true, sent = true, running = true }
local FAILURE = { error = true, target_missing = true, abandoned = true }
local AUTOMATIC = { schedule = true, catch_up = true }

local touched_history, touched_sets = {}, {}

local TEXTS = { 'moment', 'name', 'kind', 'origin', 'status', 'owner', 'token', 'worker', 'reason' }
local NUMBERS = { 'owned', 'committed', 'tries', 'attempt', 'sent_as', 'retries' }

-- A claim that can be worked with; ends the item if it is not one.
local function sound(text, c)
  if not c then
    bad('fire:' .. text, '', 'holds no JSON object')
  end
  for _, field in ipairs(TEXTS) do
    if type(c[field]) ~= 'string' then
      bad('fire:' .. text, '', 'has no text as ' .. field)
    end
  end
  for _, field in ipairs(NUMBERS) do
    if type(c[field]) ~= 'number' then
      bad('fire:' .. text, '', 'has no number as ' .. field)
    end
  end
  if c.status == 'running' and type(c.lease) ~= 'number' then
    bad('fire:' .. text, '', 'has no number as lease')
  end
  if text:sub(-#c.moment - 1) ~= ':' .. c.moment then
    bad('fire:' .. text, '', 'is the claim of another fire')
  end
  return c
end

local function fire_of(text, raw)
  local c = sound(text, object(raw))
  return { text = text, id = text:sub(1, #text - #c.moment - 1), moment = c.moment, was = c.status, c = c }
end

local function load(text)
  local raw = ask('fire:' .. text, 'GET', K('fire:' .. text))
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

-- --- proofs ------------------------------------------------------------------------------------------------------

-- One more pending claim needs this plan.
local function keep_proof(f, plan)
  local field = f.c.proof .. ':' .. f.id
  ask('proofs', 'HSET', K('proofs'), field, plan)
  try('proofs', '#' .. field, 'HINCRBY', K('proofs'), '#' .. field, 1)
  touched_sets.proofs = true
end

-- A claim that leaves the outbox has been proven, or is gone: the last one takes the plan along.
local function let_proof_go(f)
  local field = f.c.proof .. ':' .. f.id
  if (try('proofs', '#' .. field, 'HINCRBY', K('proofs'), '#' .. field, -1) or 1) <= 0 then
    redis.call('HDEL', K('proofs'), field, '#' .. field)
  end
  f.c.proof = nil
end

local told_proofs = {}

-- The plan that proves a claim, told once a call: many claims may share it.
local function proof_of(c, id)
  local field = c.proof and c.proof .. ':' .. id
  if not field or told_proofs[field] then
    return ''
  end
  told_proofs[field] = true
  return try('proofs', field, 'HGET', K('proofs'), field) or ''
end

-- Write the claim; outbox and leases follow its status.
local function save(f)
  local c = f.c
  if c.store == 'db' or c.stray then
    c.serial = math.max((c.serial or 0) + 1, now) -- grows over a loss of memory, too
  end
  if c.proof and c.status ~= 'pending' then
    let_proof_go(f)
  end
  if c.status == 'pending' then
    ask('pending', 'ZADD', K('pending'), c.committed, f.text)
    touched_sets.pending = true
  else
    c.free = nil
    if f.was == 'pending' then
      try('pending', f.text, 'ZREM', K('pending'), f.text)
    end
  end
  if c.status == 'running' then
    if try('leases', f.text, 'ZADD', K('leases'), c.lease, f.text) then
      touched_sets.leases = true
    end
  else
    c.lease = nil
    c.token = ''
    if f.was == 'running' then
      try('leases', f.text, 'ZREM', K('leases'), f.text)
    end
  end
  local life = ON_THE_WAY[c.status] and conf.claim_ttl or conf.ended_ttl
  redis.call('SET', K('fire:' .. f.text), cjson.encode(c), 'PX', life)
  f.was = c.status
end

-- As if it had never been claimed.
local function forget(f)
  if f.c.proof then
    let_proof_go(f)
  end
  redis.call('DEL', K('fire:' .. f.text))
  try('pending', f.text, 'ZREM', K('pending'), f.text)
  try('fires:' .. f.id, f.moment, 'HDEL', K('fires:' .. f.id), f.moment)
end

-- --- history ----------------------------------------------------------------------------------------------------

-- A fire does not wait for its history to be mended.
local function write_record(id, moment, entry)
  if try('fires:' .. id, moment, 'HSET', K('fires:' .. id), moment, cjson.encode(entry)) then
    touched_history[id] = entry.store or 'code'
  end
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
  if c.store ~= 'db' and not c.stray then
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
  if try('uncarried', f.text, 'ZADD', K('uncarried'), 'NX', c.serial, f.text) then
    touched_sets.uncarried = true
  end
end

-- What became of a fire of a row must reach its database: it does not end while there is no way there.
local function may_carry(f)
  if f.c.store == 'db' then
    ask('carry', 'HLEN', K('carry'))
    ask('uncarried', 'ZCARD', K('uncarried'))
  end
end

-- The fire's entry as its claim is now. A row knows of its pending fires; everything later is carried there.
local function record(f, output, err, uncounted)
  local c = f.c
  local entry = {
    name = c.name, kind = c.kind, origin = c.origin, status = c.status, reason = c.reason, attempt = c.attempt,
    beat = c.owner, worker = c.worker, committed = c.committed, sent = c.sent, started = c.started,
    finished = c.finished, output = output, error = err, late = c.late, store = c.store, proof = c.proof,
    uncounted = uncounted and true or nil,
  }
  write_record(f.id, f.moment, entry)
  if c.status ~= 'pending' then
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

-- Nil and true for one that is there but cannot be read.
local function entry_of(id, moment)
  local raw = try('fires:' .. id, moment, 'HGET', K('fires:' .. id), moment)
  local entry = raw and object(raw) or nil
  if raw and not entry then
    fault('fires:' .. id, moment, 'holds no JSON object')
  end
  return entry, not entry and raw ~= false
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
    proof = entry.proof,
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
        try('state:' .. f.id, 'consecutive_failures', 'HINCRBY', key, 'consecutive_failures', 1)
      end
    end
  end
  record(f, output, err, FAILURE[c.status] and not counted)
end

-- The fire has ended: give back its limits and name the waiting fires that now fit. There are no limits here yet;
-- this is the one place that finish, reap, drop and expiry go through, in the same step as the outcome.
local function release(f)
  return {}
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

-- --- who may take ------------------------------------------------------------------------------------------------

local alive_cache = {}

local function alive(owner)
  if alive_cache[owner] == nil then
    local seen = try('seen', owner, 'ZSCORE', K('seen'), owner)
    -- where nobody's life can be seen, nobody is judged by it
    alive_cache[owner] = seen == nil or (seen and now - tonumber(seen) <= conf.heartbeat) and true or false
  end
  return alive_cache[owner]
end

local function heartbeat(owner)
  if try('seen', owner, 'ZADD', K('seen'), now, owner) then
    touched_sets.seen = true
  end
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
  if not judging() or now < common.beats_from then
    return false
  end
  return not alive(c.owner) or age >= conf.takeover
end

-- Give all that was touched a life. History of rows is in their database; what is here is a short copy, by which a late
-- delivery of an ended fire is recognised.
local function settle()
  for id, store in pairs(touched_history) do
    local copy = store == 'db'
    redis.call('PEXPIRE', K('fires:' .. id), copy and conf.copy_ms or conf.history_ms)
    prune(id, copy and conf.copy_limit or conf.history_limit)
  end
  for name in pairs(touched_sets) do
    redis.call('PEXPIRE', K(name), conf.keep)
  end
end

-- End of every script that writes.
local function done(items)
  settle()
  return answer(items)
end
