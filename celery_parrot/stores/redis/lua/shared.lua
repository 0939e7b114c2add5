-- What the scripts of this room share. names and names:{kind}: sorted sets of "name\0id", all of one score, so ordered by
-- name.

local function member(name, id)
  return name .. '\0' .. id
end

-- Into the order by name of all and of its kind, or out of it.
local function list(name, id, kind)
  redis.call('ZADD', K('names'), 0, member(name, id))
  redis.call('ZADD', K('names:' .. kind), 0, member(name, id))
end

local function unlist(name, id, kind)
  redis.call('ZREM', K('names'), member(name, id))
  if kind then
    redis.call('ZREM', K('names:' .. kind), member(name, id))
  end
end

local function id_of(name)
  local found = redis.call('ZRANGEBYLEX', K('names'), '[' .. member(name, ''), '(' .. name .. '\1', 'LIMIT', 0, 1)
  return found[1] and found[1]:sub(#name + 2)
end

-- Members after this name, of one kind or of all.
local function page(kind, after, count)
  local first = after == '' and '-' or '(' .. after .. '\1'
  return redis.call('ZRANGEBYLEX', K(kind and 'names:' .. kind or 'names'), first, '+', 'LIMIT', 0, count)
end

-- A definition with what is known of it.
local function told(id, raw, name)
  local entries = try('fires:' .. id, '', 'HLEN', K('fires:' .. id)) or 0
  local state = try('state:' .. id, '', 'HGETALL', K('state:' .. id)) or {}
  return { id, raw, entries, state, name }
end

local function wake()
  redis.call('PUBLISH', K('wake'), '1')
end

-- A definition that cannot be computed is tried again at `at`: a newer release may know better.
local function put_aside(id, kind, at, why)
  redis.call('HSET', K('state:' .. id), 'broken', why, 'kind', kind)
  try('run_times:' .. kind, id, 'ZADD', K('run_times:' .. kind), at, id)
  try('kinds', kind, 'SADD', K('kinds'), kind)
end

-- The version of a definition, also of one that cannot be read.
local function version_of(id, raw)
  return job_version(raw) or tonumber(redis.call('HGET', K('state:' .. id), 'version') or '1')
end
