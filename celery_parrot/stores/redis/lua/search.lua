-- A page by name of what may match: call.after, call.count (names to look at), call.most (of them to tell), call.kind?;
-- with call.text (lower case) what has it in name or target, with call.waits what is held or may be off.
-- -> {where the next page begins, or '' at the end; {id, JSON, history entries, {field, value…}, name} each}.
local BATCH = 100

local function has_text(text)
  return text:lower():find(call.text, 1, true) ~= nil
end

local known = {}

-- In a text of our own nothing nested comes before the target. Any other is looked at whole: it may say too much here.
local function target_has_text(raw)
  local _, before = raw:find(',"target":"', 1, true)
  local after = before and raw:find('"', before + 1, true)
  local target = after and raw:find('^{"format":%d+,"schedule_id":"') and raw:sub(before + 1, after - 1)
  if not target or target:find('\\', 1, true) then
    return has_text(raw)
  end
  if known[target] == nil then
    known[target] = has_text(target)
  end
  return known[target]
end

-- Whether its JSON may say that it is off.
local function may_be_off(raw)
  local _, last = raw:find('"enabled"', 1, true)
  while last do
    if raw:find('^%s*:%s*false', last + 1) then
      return true
    end
    _, last = raw:find('"enabled"', last + 1, true)
  end
  return false
end

local function matches(name, id, raw)
  if call.text and not (has_text(name) or target_has_text(raw)) then
    return false
  end
  return not call.waits or may_be_off(raw) or redis.call('HEXISTS', K('state:' .. id), 'disabled_by') == 1
end

local found, last = {}, ''

-- Until enough are found.
local function look(names, ids)
  for i, raw in ipairs(redis.call('HMGET', K('jobs'), unpack(ids))) do
    last = names[i]
    if raw and matches(last, ids[i], raw) then
      found[#found + 1] = told(ids[i], raw, last)
      if #found == call.most then
        return
      end
    end
  end
end

local some = page(call.kind, call.after, call.count)
for first = 1, #some, BATCH do
  local names, ids = {}, {}
  for i = first, math.min(first + BATCH - 1, #some) do
    local nul = some[i]:find('\0', 1, true) or #some[i] + 1
    names[#names + 1], ids[#ids + 1] = some[i]:sub(1, nul - 1), some[i]:sub(nul + 1)
  end
  look(names, ids)
  if #found == call.most then
    break
  end
end
local whole = #some < call.count and #found < call.most
return plain({ whole and '' or last, found })
