-- call.kinds, or call.except: all but these; call.before (ms), call.limit
-- -> {next instants: {kind, ms or ""…}, found: {kind, id, JSON, mark, auto_count, broken}…}, earliest first.
-- The next instant of a kind is that of the first one not among the found.
local kinds = call.kinds
if not kinds then
  kinds = {}
  local known = {}
  for _, kind in ipairs(call.except) do
    known[kind] = true
  end
  for _, kind in ipairs(try('kinds', '', 'SMEMBERS', K('kinds')) or {}) do
    if redis.call('EXISTS', K('run_times:' .. kind)) == 0 then
      redis.call('SREM', K('kinds'), kind)
    elseif not known[kind] then
      kinds[#kinds + 1] = kind
    end
  end
end

local candidates, taken = {}, {}
for _, kind in ipairs(kinds) do
  taken[kind] = 0
  local some = try('run_times:' .. kind, '', 'ZRANGEBYSCORE', K('run_times:' .. kind), '-inf', call.before,
    'WITHSCORES', 'LIMIT', 0, call.limit) or {}
  for i = 1, #some, 2 do
    candidates[#candidates + 1] = { kind = kind, id = some[i], at = tonumber(some[i + 1]) }
  end
end
table.sort(candidates, function(a, b)
  return a.at < b.at or (a.at == b.at and a.id < b.id)
end)
for i = 1, math.min(call.limit, #candidates) do
  taken[candidates[i].kind] = taken[candidates[i].kind] + 1
end

local following = {}
for _, kind in ipairs(kinds) do
  local n = taken[kind]
  following[#following + 1] = kind
  following[#following + 1] = (try('run_times:' .. kind, '', 'ZRANGE', K('run_times:' .. kind), n, n, 'WITHSCORES') or {})[2] or ''
end

local found = {}

-- One whose run state cannot be read stays where it is, and is not handed out.
local function look(candidate)
  local kind, id = candidate.kind, candidate.id
  local key = K('state:' .. id)
  local raw = ask('jobs', 'HGET', K('jobs'), id)
  local state = ask(state_of(id), 'HMGET', key, 'last_due', 'disabled_by', 'auto_count', 'broken')
  if not raw or (state[2] or '') ~= '' then
    redis.call('ZREM', K('run_times:' .. kind), id) -- another client took the definition away, or left it here
  else
    local mark = moment_of(id, state[1])
    if not mark then -- or brought one without its run state: it starts now
      mark = iso_now()
      redis.call('HSET', key, 'last_due', mark, 'when', JOB, 'kind', kind)
    end
    counter(id, 'auto_count', state[3])
    found[#found + 1] = { kind, id, raw, mark, state[3] or '0', state[4] or '' }
  end
end

local few = {}
for i = 1, math.min(call.limit, #candidates) do
  few[i] = candidates[i]
end
each(few, look, state_of)
return plain({ following, found })
