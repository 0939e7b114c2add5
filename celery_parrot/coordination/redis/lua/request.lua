-- call.items: {text, owner, tries, limits: {{name, capacity, busy, buffer?}…}, wait?}
-- -> {grant, limit, claim text, moment and kind of the fire that holds it ("" if none is known)} each; {} where something
-- cannot be read.
-- All limits of each fire: first those that skip, then those with a full buffer, then the others together or none.
local lost = enter()
if lost then
  return lost
end

-- What stands against a fire: who holds the limit, or stands before it in its line.
local function against(grant, limit, text)
  local ok, other = pcall(load, text or '')
  local c = ok and other and other.c
  return { grant, limit and limit.name or '', c and text or '', c and c.moment or '', c and c.kind or '' }
end

local function waiting(f)
  return against('waiting', kept_back_by(f))
end

-- Ends at once. An in-flight skip is no success of its target: no failure count moves.
local function skip(f, limit, status, reason, text)
  local reply = against('skipped', limit, text)
  may_carry(f)
  unreserve(f)
  f.c.status, f.c.reason, f.c.finished, f.c.limits = status, reason, now, nil
  local output
  if status == 'success' then
    output = string.format('{"%s": true, "held_by": "%s"}', call.skip_key, text and fire_id(text) or '')
    if has_state(f.id) then
      redis.call('HSET', K('state:' .. f.id), 'last_status', 'success', 'last_result', output, 'last_result_at', iso_now())
    end
  end
  save(f)
  record(f, output)
  return reply
end

local function first_in_line(limit)
  local head = head_of(limit.name)
  return head and text_at(head)
end

-- Holders and waiting fires of a limit count together.
local function is_full(limit)
  local held_now = ask(holders_of(limit.name), 'ZCARD', K(holders_of(limit.name)))
  local queued = ask(waiting_for(limit.name), 'ZCARD', K(waiting_for(limit.name)))
  return held_now + queued >= limit.capacity + limit.buffer
end

-- The answer that ends it, or nil. Nothing is written before all that can be wrong was looked at.
local function refused(f)
  for _, limit in ipairs(f.c.limits) do
    if not waits(limit) and not has_room(limit, f.text) then
      local text = oldest_holder(limit.name)
      if limit.busy == 'skip' then
        return skip(f, limit, 'success', call.in_flight, text)
      end
      return skip(f, limit, 'skipped', call.overlap, text)
    end
  end
  for _, limit in ipairs(f.c.limits) do
    if waits(limit) and limit.buffer and not holds(limit.name, f.text) and is_full(limit) then
      local text = oldest_holder(limit.name) or first_in_line(limit)
      return skip(f, limit, 'skipped', call.overlap, text)
    end
  end
  return nil
end

local function wait_in_line(f, lack)
  local c = f.c
  join_line(f)
  if lack == SLOTS then
    keep_in('limits:ready', c.place, 0)
  end
  if unsettled() then
    settle_line(f)
    if c.granted then
      c.waited_until = nil
      save(f)
      return { 'granted', '', '', '', '' }
    end
  end
  local reply = waiting(f)
  c.status = 'waiting'
  c.waited_for, c.waited_from, c.waited_until = reply[2], now, nil
  c.held_by = reply[3] ~= '' and fire_id(reply[3]) or nil
  save(f)
  record(f)
  return reply
end

-- Of the limits that it asks for: those that may now be held by more than was known.
local function raised(limits)
  local names = {}
  for _, limit in ipairs(limits) do
    if note_capacity(limit) then
      names[#names + 1] = limit.name
    end
  end
  return names
end

local function decide(f, item)
  local c = f.c
  if #item.limits == 0 then
    if unsettled() then
      settle_line()
    end
    c.granted = true
    save(f)
    return { 'granted', '', '', '', '' }
  end
  c.limits = item.limits
  local more = raised(c.limits)
  if #more > 0 and unsettled() then
    settle_line()
  elseif #more > 0 then
    admit(more)
  end
  local reply = refused(f)
  if reply then
    return reply
  end
  for _, limit in ipairs(c.limits) do
    if waits(limit) then -- before the first write
      head_of(limit.name)
      has_room(limit, f.text)
    end
  end
  ask('limits:line', 'ZCARD', K('limits:line'))
  for _, limit in ipairs(c.limits) do
    if not waits(limit) then
      hold_limit(limit, f.text)
    end
  end
  c.wait_until = item.wait and (c.recovered and now or c.committed) + item.wait or nil -- what it ran for was no wait
  c.place = sortable(c.moment) .. next_serial() .. ':' .. f.text
  local lack = lacks(f)
  if not lack and not unsettled() then
    grant(f)
    c.place, c.wait_until = nil, nil
    save(f)
    return { 'granted', '', '', '', '' }
  end
  return wait_in_line(f, lack)
end

local function request(item)
  local f = load(item.text)
  local c = f and f.c
  if not c or c.owner ~= item.owner or c.tries ~= item.tries then
    return { 'lost', '', '', '', '' }
  elseif c.status == 'waiting' then
    return waiting(f)
  elseif (c.status == 'success' and c.reason == call.in_flight) or (c.status == 'skipped' and c.reason == call.overlap) then
    return { 'skipped', '', '', '', '' } -- the reply to the first request was lost
  elseif c.status ~= 'pending' or quiet() then
    return { 'lost', '', '', '', '' }
  elseif c.granted then
    return { 'granted', '', '', '', '' }
  end
  return decide(f, item)
end

return done(each(call.items, request, claim_of, {}))
