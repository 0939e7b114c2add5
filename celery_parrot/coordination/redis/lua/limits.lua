-- -> {limits, claims}: {name, capacity, {claim text, when in ms…} of its holders, {claim text…} of those that wait} of
-- each limit that somebody holds or waits for; {claim text, claim, plan or ""…} of all these fires.
local lost = enter()
if lost then
  return lost
end

local claims, seen = {}, {}

-- False for one that is gone or cannot be read.
local function tell(text)
  if seen[text] == nil then
    local ok, f = pcall(load, text)
    if not ok then
      excuse(f, 'fire:' .. text)
    end
    seen[text] = ok and f ~= nil
    if seen[text] then
      claims[#claims + 1] = text
      claims[#claims + 1] = cjson.encode(f.c)
      claims[#claims + 1] = proof_of(f.c, f.id)
    end
  end
  return seen[text]
end

local function look(name)
  local capacity = try('limits:capacities', name, 'HGET', K('limits:capacities'), name)
  local holders, queued = {}, {}
  local held_by = try(holders_of(name), '', 'ZRANGE', K(holders_of(name)), 0, -1, 'WITHSCORES') or {}
  for i = 1, #held_by, 2 do
    if tell(held_by[i]) then
      holders[#holders + 1] = held_by[i]
      holders[#holders + 1] = math.floor(tonumber(held_by[i + 1]) / 1000)
    end
  end
  for _, place in ipairs(try(waiting_for(name), '', 'ZRANGE', K(waiting_for(name)), 0, -1) or {}) do
    if tell(text_at(place)) then
      queued[#queued + 1] = text_at(place)
    end
  end
  return { name, tonumber(capacity or '') or 0, holders, queued }
end

local found = {}
for i, name in ipairs(try('limits:names', '', 'ZRANGE', K('limits:names'), 0, -1) or {}) do
  found[i] = look(name)
end
return answer({ found, claims })
