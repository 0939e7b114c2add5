-- Claims, outbox, leases, and what watches over fires on their way: what most scripts share.
--
-- fire:{text}   claim, JSON; expires claim_ttl after its last change, ended_ttl after its outcome
-- pending       outbox: sorted set of claim texts by commit time
-- leases        running fires: sorted set of claim texts by end of lease
-- silent        running fires that are to show progress: by when they will have been silent for too long
-- sent          sent fires without limits: by when a worker must have started them
-- limits:sent   those with limits, likewise
-- running:{id}  run-now guard of a schedule: the id of the fire that has it; expires after the guard's seconds
-- guards        hash: schedule id -> claim text of that fire
-- proofs        hash: "{token}:{id}" -> plan of a commit that a row in a database decides, "#{token}:{id}" -> how many
--               pending claims still carry it
--
-- A fire here is a table: text ("{id}:{moment}"), id, moment, was (status when loaded), c (the claim).

local ON_THE_WAY = { pending = true, waiting = true, sent = true, running = true }
local FAILURE = { error = true, target_missing = true, abandoned = true }
local AUTOMATIC = { schedule = true, catch_up = true }
local DEMANDED = { run_now = true, backfill = true } -- no row knows of them before it is told

local touched_history, touched_sets = {}, {}

local TEXTS = { 'moment', 'name', 'kind', 'origin', 'status', 'owner', 'token', 'worker', 'reason' }
local NUMBERS = { 'owned', 'committed', 'tries', 'attempt', 'sent_as', 'retries' }

local BUSY = { skip = true, overlap = true, wait = true }

local function are_limits(limits)
  if type(limits) ~= 'table' then
    return false
  end
  for _, limit in pairs(limits) do
    if type(limit) ~= 'table' or type(limit.name) ~= 'string' or type(limit.capacity) ~= 'number' or not BUSY[limit.busy] then
      return false
    end
  end
  return true
end

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
  if c.limits ~= nil and not are_limits(c.limits) then
    bad('fire:' .. text, '', 'holds no limits as limits')
  end
  return c
end

local function fire_of(text, raw)
  local c = sound(text, object(raw))
  return { text = text, id = text:sub(1, #text - #c.moment - 1), moment = c.moment, was = c.status, was_silent = c.silent_after, c = c }
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

-- The bytes of uuid.NAMESPACE_URL, and what Python makes of them: Namespace.fire_id.
local URL = '\107\167\184\017\157\173\017\209\128\180\000\192\079\212\048\200'

local function fire_id(text)
  local hex = redis.sha1hex(URL .. K('fire:' .. text))
  local variant = string.format('%x', tonumber(hex:sub(17, 17), 16) % 4 + 8)
  return hex:sub(1, 8) .. '-' .. hex:sub(9, 12) .. '-5' .. hex:sub(14, 16) .. '-' .. variant .. hex:sub(18, 20) .. '-'
    .. hex:sub(21, 32)
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

-- Keep a fire in a sorted set, or out of it: what it can do without.
local function keep_in(set, text, score)
  if try(set, text, 'ZADD', K(set), score, text) then
    touched_sets[set] = true
  end
end

local function keep_out(set, text)
  try(set, text, 'ZREM', K(set), text)
end

local function sent_set(c)
  return c.limits and 'limits:sent' or 'sent'
end

-- What watches over it while it runs.
local function watch_running(f)
  local c = f.c
  if c.status == 'running' then
    keep_in('leases', f.text, c.lease)
    if c.silent_after then
      keep_in('silent', f.text, c.progressed + c.silent_after)
    elseif f.was_silent then
      keep_out('silent', f.text)
    end
    return
  end
  c.lease, c.token = nil, ''
  if f.was == 'running' then
    keep_out('leases', f.text)
    if f.was_silent then
      keep_out('silent', f.text)
    end
  end
end

-- What watches over it until it runs.
local function watch_sent(f)
  local c = f.c
  if c.status == 'sent' then
    if f.was ~= 'sent' then
      keep_in(sent_set(c), f.text, c.deadline or now + conf.unknown_after)
    end
  elseif f.was == 'sent' then
    keep_out('sent', f.text)
    keep_out('limits:sent', f.text)
  end
end

-- What watches over it until it is sent, once it holds its limits.
local function watch_granted(f)
  local c = f.c
  if type(c.send_until) ~= 'number' then
    return
  elseif c.status == 'pending' then
    keep_in('limits:until', f.text, math.max(c.send_until, c.owned + conf.takeover))
  elseif f.was == 'pending' then
    keep_out('limits:until', f.text)
  end
end

-- The run-now guard goes with the outcome. Whoever lost it and finds it free has it again: a fire that goes on after it
-- was abandoned, one that a loss of memory left behind.
local function keep_guard(f)
  local name = 'running:' .. f.id
  local has_it = try(name, '', 'GET', K(name))
  local mine = fire_id(f.text)
  if ON_THE_WAY[f.c.status] then
    if has_it == mine or has_it == false then
      redis.call('SET', K(name), mine, 'PX', f.c.guard)
      if try('guards', f.id, 'HSET', K('guards'), f.id, f.text) then
        touched_sets.guards = true
      end
    end
  elseif try('guards', f.id, 'HGET', K('guards'), f.id) == f.text then
    try('guards', f.id, 'HDEL', K('guards'), f.id)
    if has_it == mine then
      redis.call('DEL', K(name))
    end
  end
end

-- Seconds a run-now keeps the guard that is known by its message alone.
local function stray_guard(origin)
  return origin == 'run_now' and 3600000 or nil
end

-- Write the claim; what watches over it follows its status.
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
      keep_out('pending', f.text)
    end
  end
  watch_running(f)
  watch_sent(f)
  watch_granted(f)
  if type(c.guard) == 'number' then
    keep_guard(f)
  end
  -- what holds limits or waits is brought to an outcome, however long that takes
  local life = not ON_THE_WAY[c.status] and conf.ended_ttl or c.limits and conf.keep or conf.claim_ttl
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
