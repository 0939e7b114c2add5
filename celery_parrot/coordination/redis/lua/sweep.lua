-- call.owner, call.beat (what `beats` shows), call.offset, call.limit
-- -> {entries: {text, claim, plan or ""…}, indexes of those that may be taken, beats: {owner, JSON…}, seen: {owner, ms…}}
local lost = enter()
if lost then
  return lost
end
heartbeat(call.owner)
call.beat.seen = iso_now()
redis.call('HSET', K('beats'), call.owner, cjson.encode(call.beat))
touched_sets.beats = true
for _, owner in ipairs(redis.call('ZRANGEBYSCORE', K('seen'), '-inf', '(' .. (now - conf.forget_beats))) do
  redis.call('ZREM', K('seen'), owner)
  redis.call('HDEL', K('beats'), owner)
end

local entries, due = {}, {}
local texts = redis.call('ZRANGE', K('pending'), call.offset, call.offset + call.limit - 1)
for first = 1, #texts, 500 do
  local keys = {}
  for i = first, math.min(first + 499, #texts) do
    keys[#keys + 1] = K('fire:' .. texts[i])
  end
  for i, raw in ipairs(redis.call('MGET', unpack(keys))) do
    local text = texts[first + i - 1]
    local f = raw and fire_of(text, raw) or rebuild(text, 'pending')
    if not f then
      redis.call('ZREM', K('pending'), text)
    else
      entries[#entries + 1] = text
      entries[#entries + 1] = raw or cjson.encode(f.c)
      entries[#entries + 1] = proof_of(f.c, f.id)
      if takeable(f.c, call.owner) then
        due[#due + 1] = #entries / 3
      end
      if raw and now - f.c.owned > conf.claim_ttl / 2 then
        redis.call('PEXPIRE', K('fire:' .. text), conf.claim_ttl) -- in the outbox a claim does not age
        touched_sets.pending, touched_sets.proofs = true, true
      end
    end
  end
end
if #texts == 0 and call.offset == 0 then
  redis.call('DEL', K('proofs')) -- of claims that expired
end
return done({
  entries, due, redis.call('HGETALL', K('beats')), redis.call('ZRANGE', K('seen'), 0, -1, 'WITHSCORES'),
})
