-- call.items: {text, serial}: in the database now; each is forgotten unless it changed since.
local lost = enter()
if lost then
  return lost
end
-- It was a failure that the fire has gone on after: what came since is to be carried now.
local function go_on(item, told)
  local f = load(item.text)
  if f and f.c.unsaid ~= item.serial then
    return
  elseif f then
    f.c.unsaid = nil
    save(f)
  end
  local moment = told.moment
  local id = type(moment) == 'string' and item.text:sub(1, #item.text - #moment - 1)
  local entry = id and entry_of(id, moment)
  if not entry or entry.attempt <= told.attempt or entry.status == 'pending' then
    return
  end
  local c = f and f.c or { store = entry.store, stray = not entry.store or nil, serial = item.serial + 1 }
  carry({ text = item.text, id = id, moment = moment, c = c }, entry)
end

local function forget_it(item)
  local raw = ask('carry', 'HGET', K('carry'), item.text)
  local entry = raw and object(raw)
  if entry and entry.serial == item.serial then
    redis.call('HDEL', K('carry'), item.text)
    try('uncarried', item.text, 'ZREM', K('uncarried'), item.text)
    go_on(item, entry)
  end
end
each(call.items, forget_it, function() return 'carry' end)
return done({})
