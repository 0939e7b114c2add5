-- Limits: whose turn it is.
--
-- The rule: walk the line in order. Who fits gets all it asked for and goes back into the outbox; who does not keeps
-- later ones from the limits it needs. Slots are judged last: who lacks another limit reserves none.
--
-- The same without a walk: between two calls nobody in line fits. So somebody's turn comes only by a limit that changed
-- (a holder gone, or somebody gone who stood before), and then it is the turn of the first that waits for it: whoever
-- is not the first there is kept from it. Of slots it is the first in limits:ready: while a slot is free, nobody in line
-- has the right to it. Each change costs by the limits that changed and the fires that go on, not by the line.
--
-- What happens while nothing may be granted (quiet), or takes a place in line without a turn, leaves the line unsettled:
-- the next call that may grant looks at the first of every limit.

local function unsettle()
  try('limits:state', 'unsettled', 'HSET', K('limits:state'), 'unsettled', 1)
  touched_sets['limits:state'] = true
end

local function unsettled()
  return try('limits:state', 'unsettled', 'HGET', K('limits:state'), 'unsettled') == '1'
end

-- --- a heap of places, the first in line on top ----------------------------------------------------------------------

local function push(heap, place)
  local i = #heap + 1
  heap[i] = place
  while i > 1 do
    local parent = math.floor(i / 2)
    if not ahead_of(heap[i], heap[parent]) then
      break
    end
    heap[i], heap[parent] = heap[parent], heap[i]
    i = parent
  end
end

local function pop(heap)
  local top, last = heap[1], table.remove(heap)
  if #heap > 0 then
    heap[1] = last
    local i = 1
    while true do
      local first = i
      for child = 2 * i, math.min(2 * i + 1, #heap) do
        if ahead_of(heap[child], heap[first]) then
          first = child
        end
      end
      if first == i then
        break
      end
      heap[i], heap[first] = heap[first], heap[i]
      i = first
    end
  end
  return top
end

-- --- one fire --------------------------------------------------------------------------------------------------------

-- The name of a limit that it lacks, nil if it has all it waits for. Slots last.
local function lacks(f, no_slots)
  local c, slots = f.c, nil
  for _, limit in ipairs(c.limits) do
    if limit.name == SLOTS and waits(limit) then
      slots = limit
    elseif waits(limit) then
      local head = head_of(limit.name)
      if (head and head ~= c.place and not (c.place and ahead_of(c.place, head))) or not has_room(limit, f.text) then
        return limit.name
      end
    end
  end
  if slots and (no_slots or not has_room(slots, f.text)) then
    return SLOTS
  end
  return nil
end

-- The limit that keeps a waiting fire back, and the text of the fire that has it: holds it, or stands before it.
local function kept_back_by(f)
  local c, slots, first = f.c, nil, nil
  for _, limit in ipairs(c.limits) do
    if limit.name == SLOTS and waits(limit) then
      slots = limit
    elseif waits(limit) then
      first = first or limit
      if not has_room(limit, f.text) then
        return limit, oldest_holder(limit.name)
      end
    end
  end
  if slots and not has_room(slots, f.text) then
    return slots, oldest_holder(SLOTS)
  end
  for _, limit in ipairs(c.limits) do
    local head = waits(limit) and limit.name ~= SLOTS and head_of(limit.name)
    if head and ahead_of(head, c.place) then
      return limit, text_at(head)
    end
  end
  return first or slots, nil
end

-- No beat may be able to send it: then it gives back what it holds some time. Without a wait deadline never.
local function may_be_sent_until(c, moment)
  c.send_until = type(moment) == 'number' and math.max(moment, now + conf.send_within) or nil
end

local function grant(f)
  for _, limit in ipairs(f.c.limits) do
    if waits(limit) then
      hold_limit(limit, f.text)
    end
  end
  f.c.granted = true
  may_be_sent_until(f.c, f.c.wait_until)
end

-- Out of the line and on its way: takeable at once, so whoever looks first sends it.
local function go_on(f)
  leave_line(f)
  f.c.status, f.c.free = 'pending', true
  save(f)
  record(f)
end

-- A waiting fire that runs all the same (its message was out before a loss of memory): it counts, whatever the capacity.
local function out_of_turn(f)
  leave_line(f)
  hold_all(f)
  f.c.granted = true
  unsettle()
end

-- --- whose turn it is ------------------------------------------------------------------------------------------------

-- What stands at a place: a fire of the line; nil, and the place is taken out, where there is none (any more). What
-- cannot be read is only passed over, and told: its place in limits:line stays, for when it has been mended.
local function stands_at(place, names)
  local ok, f = pcall(load, text_at(place))
  if ok and f and f.c.status == 'waiting' and f.c.place == place and f.c.limits then
    return f
  end
  if ok then
    keep_out('limits:line', place)
    if not (f and f.c.place) then
      keep_out('limits:until', text_at(place))
    end
  else
    excuse(f, 'fire:' .. text_at(place))
  end
  keep_out('limits:ready', place)
  for _, name in ipairs(names) do
    keep_out(waiting_for(name), place)
  end
  return nil
end

-- The fires that these limits now let go on, in the order of the line: put back into the outbox. `newcomer` is one that
-- is just joining the line: it is granted, but was not out of the outbox.
local function admit(names, newcomer)
  if quiet() then
    unsettle()
    return {}
  end
  local named, heap, found, no_slots = {}, {}, {}, false

  local function look_at(name)
    local place
    if name == SLOTS then
      place = not no_slots and (try('limits:ready', '', 'ZRANGE', K('limits:ready'), 0, 0) or {})[1]
    else
      local ok, head = pcall(head_of, name)
      if not ok then
        excuse(head, waiting_for(name))
      end
      place = ok and head
    end
    if not place then
      return
    elseif not found[place] then
      found[place] = {}
      push(heap, place)
    end
    found[place][#found[place] + 1] = name
  end

  -- The limits to look at again afterwards: where somebody else is now the first.
  local function turn(place, through)
    local f = newcomer and newcomer.c.place == place and newcomer or stands_at(place, through)
    if not f then
      return through
    end
    local lack = lacks(f, no_slots)
    if lack == SLOTS then
      keep_in('limits:ready', place, 0)
      no_slots = true
      return {}
    elseif lack then
      keep_out('limits:ready', place)
      return { SLOTS }
    end
    local limits, again = f.c.limits, {}
    grant(f)
    if f == newcomer then
      leave_line(f)
    else
      go_on(f)
      named[#named + 1] = f
    end
    for _, limit in ipairs(limits) do
      if waits(limit) then
        again[#again + 1] = limit.name
      end
    end
    return again
  end

  for _, name in ipairs(names) do
    look_at(name)
  end
  while #heap > 0 do
    local place = pop(heap)
    local through = found[place]
    found[place] = nil
    local ok, again = pcall(turn, place, through)
    if not ok then
      excuse(again, 'fire:' .. text_at(place))
    end
    for _, name in ipairs(ok and again or {}) do
      look_at(name)
    end
  end
  if #named > 0 then
    wake()
  end
  return named
end

-- Look at the first of every limit.
local function settle_line(newcomer)
  local names = try('limits:names', '', 'ZRANGE', K('limits:names'), 0, -1) or {}
  names[#names + 1] = SLOTS
  local named = admit(names, newcomer)
  if not quiet() then
    try('limits:state', 'unsettled', 'HDEL', K('limits:state'), 'unsettled')
  end
  return named
end

-- --- where it ends ---------------------------------------------------------------------------------------------------

-- The fire gives back what it held and its place in line. The names of the limits that changed; whose turn it is then
-- is for `admit`, once the fire's own end is written.
local function let_go(f)
  local c, names = f.c, {}
  end_reservation(f)
  local place = c.place
  if place then
    leave_line(f)
  end
  if not c.limits then
    return names
  end
  if c.send_until and f.was == 'pending' then
    keep_out('limits:until', f.text)
  end
  for _, limit in ipairs(c.limits) do
    keep_out(holders_of(limit.name), f.text)
    names[#names + 1] = limit.name
    out_of_use(limit.name)
  end
  c.limits, c.granted, c.send_until = nil, nil, nil
  return names
end

-- Whose turn it is after `let_go` -> text, moment, text, moment, … of those that go on.
local function next_turns(names)
  local told = {}
  if #names == 0 then
    return told
  end
  for _, f in ipairs(unsettled() and settle_line() or admit(names)) do
    told[#told + 1] = f.text
    told[#told + 1] = f.moment
  end
  return told
end

-- The fire has ended, its outcome is in its claim: the one hook that every end of a fire goes through. Claim, run state and history are written, its limits given back, and the waiting fires that now fit put back into
-- the outbox, all in one step. Returns those as text and moment in turn.
local function release(f, output, err, counted)
  local names = let_go(f)
  save(f)
  outcome(f, output, err, counted)
  return next_turns(names)
end

-- The same for an end that no worker reports. What was never sent is given back to max_fires.
local function finish_as(f, status, reason, counted)
  may_carry(f)
  unreserve(f)
  f.c.status, f.c.reason, f.c.finished, f.c.ended_as = status, reason, now, nil
  return release(f, nil, nil, counted)
end
