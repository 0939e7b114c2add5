-- Definitions of the redis store, as far as a commit meets them.
--
-- jobs              hash: id -> JSON
-- run_times:{kind}  sorted set: ids of what may come, by the next sending instant in ms
-- kinds             set: kinds that have or had a run_times
-- state:{id}        besides run state: at (that instant, also of a paused or exhausted one; "" if nothing will come)

-- What `when` is in the run state of such a definition: the mark follows edits in the same step.
local JOB = 'job'

-- Our own texts begin with it, so the rest, which may be long, need not be read.
local function job_version(raw)
  local version = raw:match('^{"format":%d+,"schedule_id":"[^"\\]*","version":(%d+),')
  if version then
    return tonumber(version)
  end
  local ok, body = pcall(cjson.decode, raw)
  return ok and type(body) == 'table' and tonumber(body.version) or nil
end

-- Put a schedule where its next sending instant belongs, or out of the way.
local function place(id, kind, at, held, count, max_fires)
  redis.call('HSET', K('state:' .. id), 'at', at, 'kind', kind)
  if at == '' or held ~= '' or (max_fires and count >= max_fires) then
    try('run_times:' .. kind, id, 'ZREM', K('run_times:' .. kind), id)
  else
    try('run_times:' .. kind, id, 'ZADD', K('run_times:' .. kind), at, id)
    try('kinds', kind, 'SADD', K('kinds'), kind)
  end
end

-- A fire that max_fires had a place for was never sent: there is room again.
local function reopen(id)
  local state = redis.call('HMGET', K('state:' .. id), 'at', 'kind', 'disabled_by')
  if (state[1] or '') ~= '' and (state[3] or '') == '' and try('jobs', '', 'HEXISTS', K('jobs'), id) == 1 then
    try('run_times:' .. state[2], id, 'ZADD', K('run_times:' .. state[2]), state[1], id)
    try('kinds', state[2], 'SADD', K('kinds'), state[2])
  end
end

-- Give back what max_fires had a place for, unless the fire was sent before. Before the first write of its script.
local function unreserve(f)
  if not AUTOMATIC[f.c.origin] or f.c.counted then
    return
  end
  local key = K('state:' .. f.id)
  local count = ask('state:' .. f.id, 'HGET', key, 'auto_count')
  if counter(f.id, 'auto_count', count) > 0 then
    redis.call('HINCRBY', key, 'auto_count', -1)
    if f.c.store == 'redis' then
      reopen(f.id)
    end
  end
end
