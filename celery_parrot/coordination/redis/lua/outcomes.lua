-- Run state of a fire that has just ended, the failures that disable its schedule, and who is to hear of it.
--
-- state:{id}  of the run state: consecutive_failures, failing_since (when the first of them ended), disabled_by, note,
--             held_at

local woken = false

-- Once a call; an ACL may forbid it, then a beat finds it with its next sweep.
local function wake()
  if not woken then
    woken = true
    redis.pcall('PUBLISH', K('wake'), '1')
  end
end

-- The text cut to so many characters, a mark among them.
local function shortened(text, most)
  local seen, last = 0, 1
  for first in text:gmatch('()[^\128-\191]') do
    seen = seen + 1
    if seen > most then
      return text:sub(1, last - 1) .. '…'
    end
    last = first
  end
  return text
end

-- As planning.disabled_note.
local function disabled_note(failures, since, err)
  local text = string.format('%d failure%s in a row', failures, failures == 1 and '' or 's')
  if since then
    text = text .. ' since ' .. since:sub(1, 19) .. '+00:00'
  end
  local last = shortened(err:match('^%s*(.-)%s*$'), 200)
  return last == '' and text or text .. ', last: ' .. last
end

-- Out of what may come, if it is of the redis store; its instant stays in its run state.
local function put_out_of_the_way(id, kind)
  if kind and try('jobs', '', 'HEXISTS', K('jobs'), id) == 1 then
    try('run_times:' .. kind, id, 'ZREM', K('run_times:' .. kind), id)
  end
end

-- Hold the schedule, unless it is held already. True if this did it.
local function disable(id, failures, since, err)
  local key = K('state:' .. id)
  local state = redis.call('HMGET', key, 'disabled_by', 'kind')
  if conf.max_failures == 0 or failures < conf.max_failures or (state[1] or '') ~= '' then
    return false
  end
  redis.call('HSET', key, 'disabled_by', 'failures', 'note', disabled_note(failures, since, err), 'held_at', iso_now())
  put_out_of_the_way(id, state[2])
  wake()
  return true
end

-- How many failures in a row there are, and since when; one more if this one counts. A count that cannot be read is told,
-- and disables nothing.
local function failures_of(id, counted)
  local key, suffix = K('state:' .. id), 'state:' .. id
  if counted and not try(suffix, 'consecutive_failures', 'HINCRBY', key, 'consecutive_failures', 1) then
    return 0, nil
  end
  local state = redis.call('HMGET', key, 'consecutive_failures', 'failing_since')
  local failures, since = tonumber(state[1] or '0') or 0, state[2] or nil
  if since and not is_moment(since) then
    fault(suffix, 'failing_since', 'holds no moment')
    since = nil
  elseif counted and not since then
    since = iso_now()
    redis.call('HSET', key, 'failing_since', since)
  end
  return failures, since
end

local function succeeded(id, output)
  local key = K('state:' .. id)
  redis.call('HSET', key, 'last_status', 'success', 'last_result_at', iso_now(), 'consecutive_failures', 0)
  redis.call('HDEL', key, 'last_error', 'failing_since')
  if output then
    redis.call('HSET', key, 'last_result', output)
  else
    redis.call('HDEL', key, 'last_result')
  end
end

-- -> how many failures in a row, since when, and true if this one disabled the schedule.
local function failed(f, err, counted)
  local status = f.c.status == 'target_missing' and 'target_missing' or 'error'
  redis.call('HSET', K('state:' .. f.id), 'last_status', status, 'last_error', err, 'last_error_at', iso_now())
  local failures, since = failures_of(f.id, counted)
  return failures, since, counted and disable(f.id, failures, since, err)
end

local ABOUT = { success = 'success', error = 'failure', target_missing = 'failure', abandoned = 'failure', missed = 'missed' }

-- Run state, history and parcels of a fire that has just ended. Skipped, missed and expired leave the run state alone.
-- f.goes_on: it is sent once more, so nobody hears of it yet.
local function outcome(f, output, err, counted)
  local c, failures, since, disabled = f.c, nil, nil, false
  if (c.status == 'success' or FAILURE[c.status]) and has_state(f.id) then
    if c.status == 'success' then
      succeeded(f.id, output)
    else
      failures, since, disabled = failed(f, err or c.reason, counted)
    end
  end
  local about = ABOUT[c.status]
  if about and not f.goes_on and tells(c.tells, about) then
    if too_many() then
      f.notes = { [about] = given_up() }
    else
      tell_of(f, about, output, err, failures, since)
    end
  end
  record(f, output, err, FAILURE[c.status] and not counted)
  if disabled then
    tell_of(f, 'alert', nil, err, failures, since)
  end
end
