-- call.items: {text, id, moment, about, status, tries, callbacks (JSON text)}: what became of parcels so far.
-- state:{id}  last_delivery_status, last_delivery_at, last_callbacks (JSON text), last_delivery_due (of which fire)
local lost = enter()
if lost then
  return lost
end

-- The fire is as it was, but later entries of it keep the notes.
local function mark_told(f)
  if not f.c.told then
    f.c.told = true
    redis.call('SET', K('fire:' .. f.text), cjson.encode(f.c), 'KEEPTTL')
  end
end

-- A fire whose row is to know, too: it has changed, or what waits to be carried has.
local function carry_note(f, r, entry)
  if f then
    f.c.told = true
    save(f)
  else
    local raw = try('carry', r.text, 'HGET', K('carry'), r.text)
    local before = raw and object(raw)
    local serial = math.max(now, before and (tonumber(before.serial) or 0) + 1 or 0)
    f = { text = r.text, id = r.id, moment = r.moment, c = {
      store = entry.store, stray = not entry.store or nil, serial = serial,
    } }
  end
  carry(f, entry)
end

-- In the history entry of the fire. False: a later try has said more.
local function note(r, elsewhere)
  local entry = entry_of(r.id, r.moment)
  if not entry then
    return true
  end
  local notes = type(entry.delivery) == 'table' and entry.delivery or {}
  local before = notes[r.about]
  if type(before) == 'table' and (tonumber(before.tries) or 0) > r.tries then
    return false
  end
  notes[r.about] = { status = r.status, at = iso_now(), tries = r.tries, callbacks = r.callbacks }
  entry.delivery = notes
  local f = load(r.text)
  write_record(r.id, r.moment, entry)
  if elsewhere then
    carry_note(f, r, entry)
  elseif f then
    mark_told(f)
  end
  return true
end

local function report(r)
  local key = K('state:' .. r.id)
  local here = ask(state_of(r), 'HEXISTS', key, 'last_due') == 1
  if not note(r, not here) or not here or r.about == 'alert' then
    return
  end
  local last = redis.call('HGET', key, 'last_delivery_due')
  if last and is_moment(last) and sortable(r.moment) < sortable(last) then
    return
  end
  redis.call('HSET', key, 'last_delivery_status', r.status, 'last_delivery_at', iso_now(), 'last_callbacks', r.callbacks,
    'last_delivery_due', r.moment:match('^(.-%+00:00)'))
end

each(call.items, report, claim_of)
return done({})
