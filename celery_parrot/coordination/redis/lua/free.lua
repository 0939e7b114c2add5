-- call.texts, call.reason -> {claim, text, moment, text, moment… of the fires that the release named} where a fire on its
-- way was ended by a person, else {}. No failure that counts, and not recovered.
local lost = enter()
if lost then
  return lost
end

local function free(text)
  local f = load(text)
  if not f or not ON_THE_WAY[f.c.status] then
    return {}
  end
  local named = finish_as(f, 'abandoned', call.reason, false)
  table.insert(named, 1, cjson.encode(f.c))
  return named
end

return done(each(call.texts, free, claim_of, {}))
