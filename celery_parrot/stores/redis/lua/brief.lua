-- call.ids -> {JSON, mark, disabled_by} each, or nothing.
local function look(id)
  local raw = ask('jobs', 'HGET', K('jobs'), id)
  if not raw then
    return {}
  end
  local state = ask(state_of(id), 'HMGET', K('state:' .. id), 'last_due', 'disabled_by')
  return { raw, moment_of(id, state[1]) or '', state[2] or '' }
end
return plain(each(call.ids, look, state_of, {}))
