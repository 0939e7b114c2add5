-- Looking after the limits, a part with each reap: what is on its way does not age, and what was evicted, spoilt or
-- deleted by hand does not stop the line for ever.

local TENDED_PLACES, TENDED_NAMES, TENDED_HOLDERS = 50, 5, 100

-- A fire whose claim is gone while it waited: from its history it goes back into the outbox, and asks again.
local function ask_again(place)
  local f = rebuild(text_at(place), 'waiting')
  if f then
    f.c.status, f.c.free = 'pending', true
    save(f)
    record(f)
    wake()
  end
end

-- Its place is in every set that it belongs into. Adds the limits that did not have it.
local function tend_place(place, changed)
  local text = text_at(place)
  local f = load(text)
  if f and f.c.status == 'waiting' and f.c.place == place and f.c.limits then
    redis.call('PEXPIRE', K('fire:' .. text), conf.keep)
    if f.c.wait_until then
      keep_in('limits:until', text, f.c.wait_until)
    end
    for _, name in ipairs(put_in_line(f.c)) do
      changed[#changed + 1] = name
    end
    if lacks(f) == SLOTS then
      keep_in('limits:ready', place, 0)
      changed[#changed + 1] = SLOTS
    end
    return
  end
  stands_at(place, {})
  if not f then
    ask_again(place)
  end
end

local function tend_line(changed)
  local from = tonumber(try('limits:state', 'tended', 'HGET', K('limits:state'), 'tended') or '') or 0
  local places = try('limits:line', '', 'ZRANGE', K('limits:line'), from, from + TENDED_PLACES - 1) or {}
  each(places, function(place)
    tend_place(place, changed)
  end, function(place)
    return claim_of(text_at(place))
  end)
  local to = #places == TENDED_PLACES and from + TENDED_PLACES or 0
  if to ~= from then
    try('limits:state', 'tended', 'HSET', K('limits:state'), 'tended', to)
    touched_sets['limits:state'] = true
  end
end

-- Whoever holds it is on its way. What cannot be read holds on until it has been mended or deleted.
local function tend_limit(name, changed)
  local suffix = holders_of(name)
  local many = ask(suffix, 'ZCARD', K(suffix))
  local pages = math.max(math.ceil(many / TENDED_HOLDERS), 1)
  local from = math.floor(now / 1000) % pages * TENDED_HOLDERS
  for _, text in ipairs(ask(suffix, 'ZRANGE', K(suffix), from, from + TENDED_HOLDERS - 1)) do
    local ok, f = pcall(load, text)
    if not ok then
      excuse(f, claim_of(text))
    elseif f and ON_THE_WAY[f.c.status] and f.c.limits then
      redis.call('PEXPIRE', K('fire:' .. text), conf.keep)
      watch_granted(f)
    else
      keep_out(suffix, text)
      changed[#changed + 1] = name
    end
  end
  if many > 0 then
    touched_sets[suffix] = true
  end
  touched_sets[waiting_for(name)] = true
  out_of_use(name)
end

local function tend_limits(changed)
  local names = try('limits:names', '', 'ZRANGE', K('limits:names'), 0, TENDED_NAMES - 1) or {}
  for _, name in ipairs(names) do
    keep_in('limits:names', name, now)
    touched_sets['limits:capacities'] = true
  end
  each(names, function(name)
    tend_limit(name, changed)
  end, holders_of)
end

-- What a quiet time held up goes on, too.
local function tend()
  local changed = {}
  tend_line(changed)
  tend_limits(changed)
  if unsettled() then
    settle_line()
  elseif #changed > 0 then
    admit(changed)
  end
  touched_sets['limits:line'], touched_sets['limits:ready'], touched_sets['limits:until'] = true, true, true
end
