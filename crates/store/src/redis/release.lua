-- release: only from in flight, under this fence and owner.
local fence, owner = ARGV[2], ARGV[3]
if is_known() then
  return 1
end
if leased(fence, owner) ~= 'in_flight' then
  return 0
end
give_back('in_flight')
return done()
