-- call.leases: {text, token, progress?} -> 1 where the delivery still runs it and has one more lease time, else 0.
local lost = enter()
if lost then
  return lost
end
local function renew(lease)
  local f = load(lease.text)
  local mine = f and f.c.status == 'running' and f.c.token == lease.token
  if mine then
    f.c.lease, f.c.unproved = now + conf.lease, nil
    if lease.progress then
      f.c.progressed, f.c.progress = now, lease.progress
    end
    hold_all(f)
    save(f)
  end
  return mine and 1 or 0
end
return done(each(call.leases, renew, claim_of, 0))
