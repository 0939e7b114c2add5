-- Whose a parcel is.

-- Whether `who` may take it now. While quiet nobody may; its taker has it until it is gone or took it too long ago.
local function may_take(id, who)
  if quiet() then
    return false
  end
  local taken = ask('parcels:taken', 'HGET', K('parcels:taken'), id)
  if not taken then
    return true
  end
  local since, owner = taken:match('^(%d+):(.*)$')
  if not since then
    bad('parcels:taken', id, 'holds no beat')
  elseif owner == who then
    return true
  elseif not judging() or now < common.beats_from then
    return false
  end
  return not alive(owner) or now - tonumber(since) >= conf.takeover
end
