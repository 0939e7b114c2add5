-- call.owner, call.beat (what `beats` shows), call.offset, call.limit
-- -> {entries: {text, claim, plan or ""…}, indexes of those that may be taken, beats: {owner, JSON…}, seen: {owner, ms…},
-- line: the places of those that wait, in order, as JSON, new: {place, claim…} of those that came after call.line_seen}.
local lost = enter(true)
if lost then
  return lost
end
heartbeat(call.owner)
call.beat.seen = iso_now()
if try('beats', call.owner, 'HSET', K('beats'), call.owner, cjson.encode(call.beat)) then
  touched_sets.beats = true
end
local gone = try('seen', '', 'ZRANGEBYSCORE', K('seen'), '-inf', '(' .. (now - conf.forget_beats))
for _, owner in ipairs(gone or {}) do
  redis.call('ZREM', K('seen'), owner)
  try('beats', owner, 'HDEL', K('beats'), owner)
end

local entries, due = {}, {}

local function look(text, raw)
  local f = raw and fire_of(text, raw) or rebuild(text, 'pending')
  if not f then
    take_out('pending', text)
    return
  end
  local proof = proof_of(f.c, f.id)
  entries[#entries + 1] = text
  entries[#entries + 1] = raw or cjson.encode(f.c)
  entries[#entries + 1] = proof
  if takeable(f.c, call.owner) then
    due[#due + 1] = #entries / 3
  end
  if raw and now - f.c.owned > conf.claim_ttl / 2 then
    redis.call('PEXPIRE', K('fire:' .. text), conf.claim_ttl) -- in the outbox a claim does not age
    touched_sets.pending, touched_sets.proofs = true, true
  end
end

local texts = redis.call('ZRANGE', K('pending'), call.offset, call.offset + call.limit - 1)
for first = 1, #texts, 500 do
  local keys = {}
  for i = first, math.min(first + 499, #texts) do
    keys[#keys + 1] = K('fire:' .. texts[i])
  end
  for i, raw in ipairs(redis.call('MGET', unpack(keys))) do
    local text = texts[first + i - 1]
    local ok, err = pcall(look, text, raw)
    if not ok then
      excuse(err, 'fire:' .. text) -- it stays in the outbox, for when it has been mended
    end
  end
end
if #texts == 0 and call.offset == 0 and try('proofs', '', 'HLEN', K('proofs')) then
  redis.call('DEL', K('proofs')) -- of claims that expired
end


-- The line, mirrored like the outbox. What a fire is does not change while it stands there, so whoever asks each second
-- has most of them already.
local places = try('limits:line', '', 'ZRANGE', K('limits:line'), call.offset, call.offset + call.limit - 1) or {}
local new = {}
for _, place in ipairs(places) do
  if place:sub(21, PLACE - 1) > call.line_seen then
    local raw = try('fire:' .. text_at(place), '', 'GET', K('fire:' .. text_at(place)))
    if raw then
      new[#new + 1] = place
      new[#new + 1] = raw
    end
  end
end
return done({
  entries, due, try('beats', '', 'HGETALL', K('beats')) or {},
  try('seen', '', 'ZRANGE', K('seen'), 0, -1, 'WITHSCORES') or {},
  cjson.encode(places), new,
})
