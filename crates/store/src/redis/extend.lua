-- extend: only from in flight, under this fence and owner. Sent twice it does the same twice.
local fence, owner, length = ARGV[2], ARGV[3], tonumber(ARGV[4])
if leased(fence, owner) ~= 'in_flight' then
  return 0
end
local retention = living('retention')
local lease_until = text(now + length)
write('in_flight', 'in_flight', math.max(tonumber(retention), length), 'lease_until', lease_until)
redis.call('ZADD', leases, lease_until, digest)
return 1
