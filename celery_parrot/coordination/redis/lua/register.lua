-- call.items: {id, when, initial?} -> {last_due, disabled_by or ""} each, {} where its run state cannot be read.
-- First come sets the mark. Another `when` is an edit: the mark becomes `initial` (now if none) but never moves back,
-- unless nothing was decided from it since it was registered (field init).
local lost = enter()
if lost then
  return lost
end
local function register(item)
  local key = K('state:' .. item.id)
  local state = ask(state_of(item), 'HMGET', key, 'last_due', 'when', 'init', 'disabled_by')
  local mark, when = moment_of(item.id, state[1]), state[2] or ''
  local initial = item.initial or iso_now()
  if not mark then
    mark = initial
    redis.call('HSET', key, 'last_due', mark, 'when', item.when, 'init', '1')
  elseif when ~= item.when then
    -- an empty fingerprint is that of a mark that came back without one
    if when ~= '' and (state[3] == '1' or sortable(initial) > sortable(mark)) then
      mark = initial
    end
    redis.call('HSET', key, 'last_due', mark, 'when', item.when)
  end
  return { mark, state[4] or '' }
end
return answer(each(call.items, register, state_of, {}))
