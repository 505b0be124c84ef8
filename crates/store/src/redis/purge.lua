-- purge: from every state, if the record is still as seen; under a live lease only by force.
local fence, state, verb, operator, reason, force = unpack(ARGV, 2, 7)
if is_known() then
  return 1
end
if not seen(fence, state) then
  return 0
end
local lease_until, operation = living('lease_until', 'operation')
if state == 'in_flight' and tonumber(lease_until) > now and force ~= '1' then
  return 0
end
remove(state)
note(verb, fence, state, '', operation, operator, reason, force)
return done()
