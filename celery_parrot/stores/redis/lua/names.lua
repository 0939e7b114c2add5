-- A page of names that contain call.text (lower case, or '' for all): call.after, call.count (names to look at).
-- -> {where the next page begins, or '' at the end; names}.
local some, found, last = page(nil, call.after, call.count), {}, ''
if #some == call.count then
  last = some[#some]:match('^[^%z]*')
end
if table.concat(some, '\n'):lower():find(call.text, 1, true) then -- most often it is nowhere, which one look tells
  for _, each in ipairs(some) do
    local name = each:match('^[^%z]*')
    if name:lower():find(call.text, 1, true) then
      found[#found + 1] = name
    end
  end
end
return plain({ last, found })
