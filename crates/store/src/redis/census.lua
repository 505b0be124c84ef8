-- census: counts the records of one tag: under a live lease, in flight, completed, unknown; then what a reaper would
-- find expired, and abandoned. It also sees to it that a server which lost its data is cold for all tags at once.
cold(tonumber(ARGV[2]))
local after, until_now = '(' .. text(now), text(now)
local expired = 0
for _, key in pairs(index) do
  expired = expired + redis.call('ZCOUNT', key, '-inf', until_now)
end
return {
  redis.call('ZCOUNT', leases, after, '+inf'),
  redis.call('ZCOUNT', index.in_flight, after, '+inf'),
  redis.call('ZCOUNT', index.completed, after, '+inf'),
  redis.call('ZCOUNT', index.unknown, after, '+inf'),
  expired,
  redis.call('ZCOUNT', leases, '-inf', until_now),
}
