-- -> {beats: {owner, JSON…}, seen: {owner, ms…}}, those seen within the last hour.
local lost = enter()
if lost then
  return lost
end
return answer({
  try('beats', '', 'HGETALL', K('beats')) or {},
  try('seen', '', 'ZRANGEBYSCORE', K('seen'), now - conf.forget_beats, '+inf', 'WITHSCORES') or {},
})
