-- look: what the front can answer to a claim. Where it cannot, one claim at a time asks PostgreSQL: it leaves its token
-- here, and the others are told to wait. A token never answers a mismatch and never replays: nobody has confirmed it.
local id, fingerprint, owner, token, place = ARGV[3], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
local RULES_LENGTH, STRUCTURED_LENGTH = 9, 41

local state, trusted_until, its_id, its_fingerprint, its_owner, by, by_until =
  fields('state', 'trusted_until', 'id', 'fingerprint', 'owner', 'by', 'by_until')

local function rules(bytes)
  return #bytes == STRUCTURED_LENGTH and string.sub(bytes, 1, RULES_LENGTH)
end

local function ask()
  if by and by ~= '' and by ~= token and tonumber(by_until) > now then
    return { text(now), 'held', text(by_until - now) }
  end
  if place == 0 then
    return { text(now), 'absent' }
  end
  adopt()
  redis.call('HSET', entry, 'generation', generation, 'by', token, 'by_until', text(now + place), 'asked', text(now))
  local kept_until, created_at = fields('kept_until', 'created_at')
  keep_until(math.max(tonumber(kept_until or 0) or 0, now + place))
  -- What was taken here PostgreSQL may not have yet.
  return { text(now), 'placed', created_at and '1' or '0' }
end

if not state or state == 'released' or tonumber(trusted_until) <= now or its_id ~= id then
  return ask()
end
if its_fingerprint ~= fingerprint then
  local operation = fields('operation')
  if rules(its_fingerprint) ~= rules(fingerprint) then
    return { text(now), 'rules_changed', its_fingerprint }
  end
  -- What the first request asked for is not always known here.
  if not operation or operation == '' then
    return ask()
  end
  return { text(now), 'mismatch', operation, state }
end
if state == 'completed' then
  local completed_at, expires_at, status, headers, body = fields('completed_at', 'expires_at', 'status', 'headers', 'body')
  return { text(now), 'completed', completed_at, expires_at, text(trusted_until - now), status, headers, body }
end
-- Its own claim is recognised by PostgreSQL.
if owner ~= '' and its_owner == owner then
  return ask()
end
local lease_until = fields('lease_until')
return { text(now), 'in_flight', text(lease_until - now) }
