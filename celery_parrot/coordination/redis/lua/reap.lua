-- call.limit -> {text, claim, texts of the fires that the release named…} each: running fires whose lease lapsed.
local lost = enter()
if lost then
  return lost
end
local reaped = {}

local function abandon(f)
  may_carry(f)
  f.c.status, f.c.reason, f.c.finished, f.c.ended_as = 'abandoned', call.reason, now, nil
  save(f)
  outcome(f, nil, nil, true)
  local entry = { f.text, cjson.encode(f.c) }
  for _, text in ipairs(release(f)) do
    entry[#entry + 1] = text
  end
  reaped[#reaped + 1] = entry
end

-- True if it is left alone.
local function look(text)
  local f = load(text) or rebuild(text, 'running')
  if not f or f.c.status ~= 'running' then
    take_out('leases', text)
  elseif f.c.put_back and now - f.c.put_back < 2 * conf.lease then
    return true -- a delivery that was put back is on its way and will go on with the fire
  else
    abandon(f)
  end
  return false
end

local offset = 0 -- past those that are left alone
while judging() and #reaped < call.limit do
  local texts = try('leases', '', 'ZRANGEBYSCORE', K('leases'), '-inf', now,
    'LIMIT', offset, call.limit - #reaped) or {}
  if #texts == 0 then
    break
  end
  for _, text in ipairs(texts) do
    local ok, left = pcall(look, text)
    if not ok then
      excuse(left, 'fire:' .. text)
    end
    if not ok or left then
      offset = offset + 1
    end
  end
end
return done(reaped)
