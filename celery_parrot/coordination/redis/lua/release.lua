-- call.items: {id, name, kind, mark, new_mark, ranges} -> {verdict, mark} each.
-- The mark moves to new_mark, what came meanwhile is recorded, the failure count starts anew.
local lost = enter()
if lost then
  return lost
end
local replies = {}
for i, item in ipairs(call.items) do
  local key = K('state:' .. item.id)
  local state = redis.call('HMGET', key, 'last_due', 'disabled_by')
  local mark, held = state[1], state[2] or ''
  if not mark then
    replies[i] = { 'unknown', '' }
  elseif held == '' then
    replies[i] = { 'committed', mark } -- released already: nothing moves
  elseif mark ~= item.mark then
    replies[i] = { 'moved', mark }
  else
    for _, range in ipairs(item.ranges) do
      not_fired(item, range, '')
    end
    redis.call('HSET', key, 'last_due', item.new_mark, 'init', '', 'consecutive_failures', 0)
    redis.call('HDEL', key, 'disabled_by', 'note', 'held_at')
    replies[i] = { 'committed', item.new_mark }
  end
end
redis.call('PUBLISH', K('wake'), '1')
return done(replies)
