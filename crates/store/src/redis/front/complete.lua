-- complete: PostgreSQL stored the response. What the repeats of it are judged by stands in the entry of its lease; where
-- that is lost, the next repeat asks PostgreSQL.
local fence, asked, completed_at, expires_at, life, status, headers, has_body, body = unpack(ARGV, 3, 11)
local its_fence, state, created_at = fields('fence', 'state', 'created_at')
if state ~= 'in_flight' or its_fence ~= fence then
  distrust(fence)
  return { text(now), '0' }
end
local until_end = math.min(tonumber(asked), now) + life
redis.call('HSET', entry, 'state', 'completed', 'by', '', 'owner', '', 'trusted_until', text(until_end),
  'completed_at', completed_at, 'expires_at', expires_at, 'status', status, 'headers', headers,
  'kept_until', text(until_end))
if has_body == '1' then
  redis.call('HSET', entry, 'body', body)
end
-- It was taken here, and is a copy now: nobody has to drain it.
if created_at then
  redis.call('HDEL', entry, 'created_at')
end
keep_until(until_end)
return { text(now), '1' }
