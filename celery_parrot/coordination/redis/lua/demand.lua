-- call.items: {text, id, moment, nonce, name, kind, origin, store?, recover?, tells?, guard? (ms), override? (JSON text),
-- attempt, split?: {first, last, count, before?: {last, count}, after?: {first, last, count}}}: fires that a person asks for
-- -> {verdict, moment of the fire, 1 if it was asked for before, who has the guard, since when in ms} each,
-- {} where something cannot be read. Guard, claim, outbox and history in one step.
local lost = enter(true)
if lost then
  return lost
end

local function reply(verdict, moment, again, held_by, since)
  return { verdict, moment or '', again and 1 or 0, held_by or '', since or 0 }
end

-- Whether something is on its way for that due time, or has run: claim or history entry.
local function has_fired(known)
  return known ~= nil and (ON_THE_WAY[known.status] or known.started ~= nil)
end

-- The moment of the fire of this schedule in the history that has this nonce.
local function asked_before(d)
  local tail = ':' .. d.nonce
  for _, moment in ipairs(try('fires:' .. d.id, '', 'HKEYS', K('fires:' .. d.id)) or {}) do
    if moment:sub(-#tail) == tail and moment:sub(-#tail - 6, -#tail - 1) == '+00:00' then
      return moment
    end
  end
  return nil
end

-- The claim that has the guard. One that has ended, is unknown or has lapsed has it no longer.
local function guarding(id)
  local text = try('guards', id, 'HGET', K('guards'), id)
  local f = text and load(text) or nil
  if not f or not f.c.guard or not ON_THE_WAY[f.c.status] then
    return nil
  end
  local unsent = f.c.status == 'pending' or f.c.status == 'waiting'
  return (unsent or ask('running:' .. id, 'GET', K('running:' .. id)) == fire_id(text)) and f or nil
end

-- Leave of an entry of several due times what lies before and after one; false if it is not as it was read.
local function split(d, entry_at)
  local s = d.split
  local whole = entry_at
  if not whole or whole.committed or (whole['until'] or s.first) ~= s.last or (whole.count or 1) ~= s.count then
    return false
  end
  local function part(first, last, count)
    whole['until'], whole.count = count > 1 and last or nil, count
    write_record(d.id, first, whole)
  end
  if s.before then -- else the fire's own entry takes its place
    part(s.first, s.before.last, s.before.count)
  end
  if s.after then
    part(s.after.first, s.after.last, s.after.count)
  end
  return true
end

local function commit(d, f, entry)
  local attempt = d.attempt
  if f then
    attempt = math.max(attempt, f.c.attempt + 1)
  end
  if entry and entry.committed then
    attempt = math.max(attempt, entry.attempt + 1)
  end
  local before = f and f.c or {}
  local new = { text = d.text, id = d.id, moment = d.moment, was = 'pending', c = {
    moment = d.moment, name = d.name, kind = d.kind, origin = d.origin, status = 'pending', owner = '', owned = now,
    committed = now, tries = 0, attempt = attempt, sent_as = attempt, retries = 0, token = '', worker = '', reason = '',
    store = d.store, recover = d.recover, tells = d.tells, guard = d.guard, override = d.override, free = true,
    told = entry and entry.delivery and true or nil,
    -- its serial and its place in run_count go on
    serial = before.serial, counted = before.counted or (entry and entry.sent and true) or nil,
  } }
  if d.guard then
    redis.call('DEL', K('running:' .. d.id)) -- of one that has it no longer
  end
  save(new)
  record(new)
  wake()
end

local function demand(d)
  if quiet() then
    return reply('quiet')
  end
  local f = load(d.text)
  local entry, unreadable = entry_of(d.id, d.moment)
  if unreadable then
    bad('fires:' .. d.id, d.moment, 'holds no JSON object')
  end
  if d.origin == 'backfill' then
    if has_fired(f and f.c or (entry and entry.committed and entry or nil)) then
      return reply('fired', d.moment)
    end
  else
    local known = (f or entry) and d.moment or (d.nonce ~= '' and asked_before(d)) or nil
    if known then
      return reply('asked', known, true)
    end
  end
  local holder = d.guard and guarding(d.id)
  if holder then
    return reply('running', holder.moment, false, fire_id(holder.text), holder.c.committed)
  end
  may_carry({ c = { store = d.store } })
  if d.split then
    if not split(d, (entry_of(d.id, d.split.first))) then
      return reply('moved', d.moment)
    end
  end
  commit(d, f, entry)
  return reply('asked', d.moment)
end

return done(each(call.items, demand, claim_of, {}))
