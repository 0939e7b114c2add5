-- call.owner, call.token; call.plans: {id, name, kind, store, mark, fires: {{moment, origin}…}, proof}
-- -> {verdict, mark, "", 0, index of each fire…} each; {} where something cannot be read.
-- Claims all fires of a plan or none, for a row in a database that decides. No mark is here.
local lost = enter(true)
if lost then
  return lost
end
heartbeat(call.owner)

-- By this very call, whose answer was lost.
local function mine(f)
  local c = f.c
  return c.status == 'pending' and c.proof == call.token and c.owner == call.owner and c.tries == 0
end

local function prepare(plan)
  if quiet() then
    return { 'moved', plan.mark, '', 0 }
  end
  ask('proofs', 'HLEN', K('proofs')) -- before the first write
  local new, reply = {}, { 'committed', plan.mark, '', 0 }
  for i, fire in ipairs(plan.fires) do
    local there = load(plan.id .. ':' .. fire[1])
    if there and not mine(there) then
      return { 'moved', plan.mark, '', 0 }
    elseif not there then
      new[#new + 1] = fire
    end
    reply[#reply + 1] = i
  end
  for _, fire in ipairs(new) do
    local f = { text = plan.id .. ':' .. fire[1], id = plan.id, moment = fire[1], was = 'pending', c = {
      moment = fire[1], name = plan.name, kind = plan.kind, origin = fire[2], status = 'pending', owner = call.owner,
      owned = now, committed = now, tries = 0, attempt = 1, sent_as = 1, retries = 0, token = '', worker = '',
      reason = '', store = plan.store, proof = call.token, recover = plan.recover, tells = plan.tells,
      told = has_entry(plan.id, fire[1]),
    } }
    keep_proof(f, plan.proof)
    save(f)
    record(f)
  end
  return reply
end

local function first_claim(plan)
  return plan.fires[1] and 'fire:' .. plan.id .. ':' .. plan.fires[1][1] or state_of(plan)
end

return done(each(call.plans, prepare, first_claim, {}))
