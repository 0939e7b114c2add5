-- call.items: {id, name, kind, mark, new_mark, ranges} -> {verdict, mark} each.
-- The mark moves to new_mark, what came meanwhile is recorded, the failure count starts anew.
local lost = enter()
if lost then
  return lost
end
local function release_it(item)
  local key = K('state:' .. item.id)
  local state = ask(state_of(item), 'HMGET', key, 'last_due', 'disabled_by')
  local mark, held = state[1], state[2] or ''
  if not mark then
    return { 'unknown', '' }
  elseif held == '' then
    return { 'committed', mark } -- released already: nothing moves
  elseif mark ~= item.mark then
    return { 'moved', mark }
  end
  for _, range in ipairs(item.ranges) do
    not_fired(item, range, '')
  end
  redis.call('HSET', key, 'last_due', item.new_mark, 'init', '', 'consecutive_failures', 0)
  redis.call('HDEL', key, 'disabled_by', 'note', 'held_at', 'failing_since')
  return { 'committed', item.new_mark }
end
local replies = each(call.items, release_it, state_of, { 'unknown', '' })
redis.call('PUBLISH', K('wake'), '1')
return done(replies)
