-- -> {beats: {owner, JSON…}, seen: {owner, ms…}}, those seen within the last hour.
local lost = enter()
if lost then
  return lost
end
return answer({
  redis.call('HGETALL', K('beats')),
  redis.call('ZRANGEBYSCORE', K('seen'), now - conf.forget_beats, '+inf', 'WITHSCORES'),
})
