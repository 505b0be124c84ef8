-- fill: what PostgreSQL answered to the claim that left this token. Where the token is gone, somebody has written since it
-- was left, or the data were lost: what was answered may be older than what happened since, and is not kept.
local TRUST, token, fence, state = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local its_fence, its_state, by, asked = fields('fence', 'state', 'by', 'asked')
if by ~= token then
  return { text(now), '0' }
end
local is_older = its_fence and tonumber(its_fence) > tonumber(fence)
local is_buried = its_state == 'released' and tonumber(its_fence) >= tonumber(fence)
if is_older or is_buried then
  redis.call('HSET', entry, 'by', '')
  return { text(now), '0' }
end
-- Lives are counted from when PostgreSQL was asked.
asked = tonumber(asked)
if state == 'acquired' then
  local id, fingerprint, owner, operation, lease = unpack(ARGV, 7, 11)
  local lease_until = asked + lease
  local kept_until = lease_until + TRUST
  confirm(fence, 'in_flight', asked + math.min(lease, TRUST), kept_until, 'id', id, 'fingerprint', fingerprint,
    'owner', owner, 'operation', operation, 'lease_until', text(lease_until), 'kept_until', text(kept_until))
elseif state == 'completed' then
  local id, fingerprint, completed_at, expires_at, life, status, headers, has_body, body = unpack(ARGV, 7, 15)
  local until_end = asked + life
  confirm(fence, 'completed', until_end, until_end, 'id', id, 'fingerprint', fingerprint, 'completed_at', completed_at,
    'expires_at', expires_at, 'status', status, 'headers', headers, 'kept_until', text(until_end))
  if has_body == '1' then
    redis.call('HSET', entry, 'body', body)
  end
elseif its_state == 'in_flight' and its_fence == fence then
  -- In flight by somebody else. Who it is is only known if it still stands here.
  local left = tonumber(ARGV[7])
  local lease_until = asked + left
  local kept_until = lease_until + TRUST
  redis.call('HSET', entry, 'by', '', 'trusted_until', text(asked + math.min(left, TRUST)),
    'lease_until', text(lease_until), 'kept_until', text(kept_until))
  keep_until(kept_until)
else
  redis.call('HSET', entry, 'by', '')
end
return { text(now), '1' }
