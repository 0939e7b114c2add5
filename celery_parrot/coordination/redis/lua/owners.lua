-- Beats and what they own; the end of every script that writes.
--
-- seen          beats: sorted set of owners by last sign of life

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
