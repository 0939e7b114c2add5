-- Limits: who holds each, and the one line of those that wait. Here the data; who gets what is decided in turns.lua.
--
-- limits:holders:{name}  sorted set: fires that hold the limit, oldest first
-- limits:waiting:{name}  sorted set: places of those that wait for it
-- limits:line            sorted set: places of all that wait, the one line
-- limits:ready           sorted set: places of those that lack nothing but a slot
-- limits:until           sorted set: waiting fires by their wait deadline, granted ones by when they must be sent
-- limits:reserved        sorted set: fires whose message a worker has in hand, by when that lapses
-- limits:names           sorted set: limits that somebody holds or waits for, by when they were last looked after
-- limits:capacities      hash: name -> capacity, as the latest request said
-- limits:state           hash: serial, unsettled (turns.lua), tended (tend.lua)
--
-- A place in line is one text: due time (20 digits), arrival (16 digits), claim text. All have the score 0, so a sorted
-- set keeps them in the order of the line, and the head of a line costs the same however long it is.
-- Of its claim a fire has: limits (what it asked for), granted (it holds all of them), place, since and wait_until while
-- it waits, send_until (once it is granted, if it has a wait deadline: by when it must be sent), waited_for, waited_from, waited_until and held_by of its last wait, worker_at_hand.

local SLOTS = 'slots'
local PLACE = 37 -- digits and colon before the claim text

local function holders_of(name)
  return 'limits:holders:' .. name
end

local function waiting_for(name)
  return 'limits:waiting:' .. name
end

local function text_at(place)
  return place:sub(PLACE + 1)
end

local function ahead_of(a, b)
  return a:sub(1, PLACE - 1) < b:sub(1, PLACE - 1)
end

-- Grows with each call, over a loss of memory, too.
local last_serial, keeps_serial

local function next_serial()
  if not last_serial then
    local told = try('limits:state', 'serial', 'HGET', K('limits:state'), 'serial')
    keeps_serial, last_serial = told ~= nil, tonumber(told or '') or 0
  end
  last_serial = math.max(last_serial + 1, now * 1000)
  local text = string.format('%016.0f', last_serial)
  if keeps_serial then
    redis.call('HSET', K('limits:state'), 'serial', text)
    touched_sets['limits:state'] = true
  end
  return text
end

-- --- who holds it ----------------------------------------------------------------------------------------------------

local function holds(name, text)
  return ask(holders_of(name), 'ZSCORE', K(holders_of(name)), text) ~= false
end

-- What the latest request said counts for all: whoever asked before a limit was raised must not wait for ever.
local function capacity_of(limit)
  return tonumber(try('limits:capacities', limit.name, 'HGET', K('limits:capacities'), limit.name) or '') or limit.capacity
end

local function has_room(limit, text)
  local suffix = holders_of(limit.name)
  return ask(suffix, 'ZCARD', K(suffix)) < capacity_of(limit) or holds(limit.name, text)
end

-- Somebody holds it or waits for it.
local function in_use(limit)
  if try('limits:names', limit.name, 'ZADD', K('limits:names'), 'NX', now, limit.name) then
    touched_sets['limits:names'] = true
  end
  if try('limits:capacities', limit.name, 'HEXISTS', K('limits:capacities'), limit.name) == 0 then
    redis.call('HSET', K('limits:capacities'), limit.name, limit.capacity)
  end
  touched_sets['limits:capacities'] = true
end

-- A request says how many may hold it. True if that is more than was known.
local function note_capacity(limit)
  local known_as = tonumber(try('limits:capacities', limit.name, 'HGET', K('limits:capacities'), limit.name) or '')
  if known_as and known_as ~= limit.capacity then
    try('limits:capacities', limit.name, 'HSET', K('limits:capacities'), limit.name, limit.capacity)
  end
  return known_as ~= nil and known_as < limit.capacity
end

local function hold_limit(limit, text)
  local suffix = holders_of(limit.name)
  if ask(suffix, 'ZSCORE', K(suffix), text) then
    return
  end
  ask(suffix, 'ZADD', K(suffix), next_serial(), text)
  touched_sets[suffix] = true
  in_use(limit)
end

-- What runs holds what it holds, whatever became of its key.
local function hold_all(f)
  for _, limit in ipairs(f.c.limits or {}) do
    local ok, err = pcall(hold_limit, limit, f.text)
    if not ok then
      excuse(err, holders_of(limit.name))
    end
  end
end

-- Forget the name once nobody holds it and nobody waits for it.
local function out_of_use(name)
  if try(holders_of(name), '', 'ZCARD', K(holders_of(name))) == 0
    and try(waiting_for(name), '', 'ZCARD', K(waiting_for(name))) == 0 then
    keep_out('limits:names', name)
    try('limits:capacities', name, 'HDEL', K('limits:capacities'), name)
  end
end

-- A fire that holds it, nil if none does.
local function oldest_holder(name)
  return ask(holders_of(name), 'ZRANGE', K(holders_of(name)), 0, 0)[1]
end

-- --- the line --------------------------------------------------------------------------------------------------------

-- The place of the first that waits for it, nil if none does.
local function head_of(name)
  return ask(waiting_for(name), 'ZRANGE', K(waiting_for(name)), 0, 0)[1]
end

local function waits(limit)
  return limit.busy == 'wait'
end

-- The name of the first that it waits for, slots last.
local function first_wanted(limits)
  local slots
  for _, limit in ipairs(limits) do
    if waits(limit) and limit.name ~= SLOTS then
      return limit.name
    elseif waits(limit) then
      slots = SLOTS
    end
  end
  return slots
end

-- Whether it waits for slots and nothing else: it is always ready.
local function needs_slots_only(c)
  for _, limit in ipairs(c.limits) do
    if waits(limit) and limit.name ~= SLOTS then
      return false
    end
  end
  return true
end

-- Into the sets that its place belongs into. The limits that did not have it yet.
local function put_in_line(c)
  local new = {}
  for _, limit in ipairs(c.limits) do
    if waits(limit) then
      local suffix = waiting_for(limit.name)
      if ask(suffix, 'ZADD', K(suffix), 0, c.place) == 1 then
        new[#new + 1] = limit.name
      end
      touched_sets[suffix] = true
      in_use(limit)
    end
  end
  if needs_slots_only(c) then
    keep_in('limits:ready', c.place, 0)
  end
  ask('limits:line', 'ZADD', K('limits:line'), 0, c.place)
  touched_sets['limits:line'] = true
  return new
end

local function join_line(f)
  local c = f.c
  c.place = c.place or sortable(c.moment) .. next_serial() .. ':' .. f.text
  c.since = c.since or now
  if c.wait_until then
    keep_in('limits:until', f.text, c.wait_until)
  end
  put_in_line(c)
end

local function leave_line(f)
  local c = f.c
  for _, limit in ipairs(c.limits) do
    if waits(limit) then
      keep_out(waiting_for(limit.name), c.place)
    end
  end
  keep_out('limits:ready', c.place)
  keep_out('limits:line', c.place)
  keep_out('limits:until', f.text)
  c.place, c.since, c.wait_until = nil, nil, nil
  c.waited_until = now
end

-- A worker has no message of it in hand any more, or had none.
local function end_reservation(f)
  if f.c.at_hand then
    keep_out('limits:reserved', f.text)
    f.c.at_hand = nil
  end
end
