-- What cannot be read: a key of another type, a field or member that holds rubbish. Nothing is deleted or overwritten
-- because of it; it is told with the answer, the item it belongs to is left alone, and all others go on.

local faults = {}
local MOST_FAULTS = 100

-- suffix  the key, without the prefix
-- part    the field or member at fault, "" for the whole key
local function fault(suffix, part, reason)
  if #faults < MOST_FAULTS then
    faults[#faults + 1] = { suffix, part, reason }
  end
end

-- End this item: `each` and `excuse` tell why. (No field err: pcall would hand on nothing else.)
local function bad(suffix, part, reason)
  error({ suffix = suffix, part = part, reason = reason })
end

local DATA_ERRORS = { 'WRONGTYPE', 'not an integer', 'not a valid float', 'would overflow' }

-- Why the data is to blame for an error. Nil for one of the server (no memory, read-only, no right): that ends the call.
local function blame(err)
  local is_text = type(err) == 'string'
  local said = is_text and err or tostring(err.err)
  for _, known in ipairs(DATA_ERRORS) do
    if said:find(known, 1, true) then
      return known == 'WRONGTYPE' and 'holds a value of another type' or said
    end
  end
  -- an older server raises its own errors as text, too
  if is_text and not said:match('^@') and not said:match('^%-?%u%u+ ') then
    return (said:gsub('^user_script:%d+: ', ''))
  end
  return nil
end

-- Tell what ended an item; `suffix` is the key to look at if the error names none.
local function excuse(err, suffix)
  if type(err) == 'table' and err.suffix then
    fault(err.suffix, err.part, err.reason)
    return err.reason
  end
  local reason = blame(err)
  if not reason then
    error(err, 0)
  end
  fault(suffix, '', reason)
  return reason
end

-- A command without which its item cannot go on.
local function ask(suffix, ...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    local reason = blame(reply)
    if reason then
      bad(suffix, '', reason)
    end
    return redis.call(...) -- the server's own error, as it raises it
  end
  return reply
end

-- A command that its item can do without: told, and nil. `part` is the field it is about.
local function try(suffix, part, ...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then
    local reason = blame(reply)
    if not reason then
      return redis.call(...)
    end
    fault(suffix, reason == 'holds a value of another type' and '' or part, reason)
    return nil
  end
  return reply
end

-- work(item) of each item; `otherwise` where it cannot be done. `subject` names the key to look at.
local function each(items, work, subject, otherwise)
  local replies = {}
  for i, item in ipairs(items) do
    local ok, reply = pcall(work, item)
    if not ok then
      excuse(reply, subject(item))
      reply = otherwise
    end
    replies[i] = reply
  end
  return replies
end

-- Subjects.
local function claim_of(item)
  return 'fire:' .. (type(item) == 'table' and item.text or item)
end

local function state_of(item)
  return 'state:' .. (type(item) == 'table' and item.id or item)
end

local DAYS = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 }

-- Whether it is the ISO text of a UTC instant, as Python writes it.
local function is_moment(text)
  local y, mo, d, h, mi, s, tail = text:match('^(%d%d%d%d)-(%d%d)-(%d%d)T(%d%d):(%d%d):(%d%d)(.*)$')
  if not y or not (tail == '+00:00' or tail:match('^%.%d%d%d%d%d%d%+00:00$')) then
    return false
  end
  y, mo, d = tonumber(y), tonumber(mo), tonumber(d)
  local leap = (y % 4 == 0 and y % 100 ~= 0) or y % 400 == 0
  return y >= 1 and DAYS[mo] ~= nil and d >= 1 and d <= DAYS[mo] and (mo ~= 2 or d < 29 or leap)
    and tonumber(h) < 24 and tonumber(mi) < 60 and tonumber(s) < 60
end

-- A counter of a run state.
local function counter(id, field, value)
  return tonumber(value or '0') or bad('state:' .. id, field, 'holds no number')
end

-- A mark of a run state.
local function moment_of(id, value)
  if value and not is_moment(value) then
    bad('state:' .. id, 'last_due', 'holds no moment')
  end
  return value
end

-- An object from JSON, or nil.
local function object(raw)
  local ok, value = pcall(cjson.decode, raw)
  return ok and type(value) == 'table' and value or nil
end
