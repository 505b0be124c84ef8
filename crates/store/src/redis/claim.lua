-- claim: decide() of the core, restated. Judged and written in one script.
local handle, number = ARGV[2], tonumber(ARGV[3])
local scope, key, fingerprint, owner = ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local operation, spelling, backend, on_abandoned = ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local max_attempts, lease, retention, lease_max = unpack(ARGV, 12, 15)
local cold_length = tonumber(ARGV[16])
local RULES_LENGTH, STRUCTURED_LENGTH = 9, 41

local function rules(bytes)
  return #bytes == STRUCTURED_LENGTH and string.sub(bytes, 1, RULES_LENGTH)
end

local function acquire(previous, attempt, length)
  local left = cold(cold_length)
  if left > 0 then
    return { 'cold', text(left) }
  end
  local fence = next_fence()
  if previous then
    write('in_flight', 'in_flight', tonumber(retention), 'fence', fence, 'owner', owner, 'attempt', text(attempt),
      'lease', text(length), 'retention', retention, 'lease_until', text(now + length), 'fingerprint', fingerprint)
  else
    -- An expired record that Redis has not forgotten yet.
    redis.call('DEL', record)
    write(nil, 'in_flight', tonumber(retention), 'fence', fence, 'owner', owner, 'attempt', text(attempt),
      'lease', text(length), 'retention', retention, 'lease_until', text(now + length), 'fingerprint', fingerprint,
      'scope', scope, 'key', key, 'operation', operation, 'spelling', spelling, 'backend', backend,
      'on_abandoned', on_abandoned, 'created_at', text(now))
  end
  redis.call('ZADD', leases, text(now + length), digest)
  local its_spelling, created_at = spelling, text(now)
  if previous then
    its_spelling, created_at = living('spelling', 'created_at')
  end
  return { 'acquired', fence, text(attempt), text(length), its_spelling, created_at }
end

local function doubt(reason)
  local its_retention = living('retention')
  write('in_flight', 'unknown', tonumber(its_retention), 'doubted_at', text(now), 'doubt_reason', reason)
  return { 'unknown', reason, text(now) }
end

local function abandoned(is_own)
  local attempt, its_lease, its_rule = living('attempt', 'lease', 'on_abandoned')
  if is_own then
    return acquire(true, tonumber(attempt), tonumber(lease))
  end
  if its_rule ~= 'takeover' or on_abandoned ~= 'takeover' then
    return doubt('worker died')
  end
  if tonumber(attempt) >= tonumber(max_attempts) then
    return doubt('attempts exhausted')
  end
  local doubled = math.min(its_lease * 2, tonumber(lease_max))
  return acquire(true, attempt + 1, math.min(math.max(doubled, tonumber(lease)), tonumber(retention)))
end

-- A claim that arrives after its own withdrawal must not stand.
local withdrawn = owner ~= '' and redis.call('GET', call)
if withdrawn then
  local by, at = string.match(withdrawn, '^(%x+):(%d+)')
  if by == handle and tonumber(at) > number then
    return { 'withdrawn' }
  end
end

local state, its_scope, its_key, its_fingerprint, its_owner, lease_until =
  living('state', 'scope', 'key', 'fingerprint', 'owner', 'lease_until')
if not state then
  return acquire(false, 1, tonumber(lease))
end
if its_scope ~= scope or its_key ~= key then
  return { 'collision' }
end
if its_fingerprint ~= fingerprint then
  if rules(its_fingerprint) == rules(fingerprint) then
    local its_operation = living('operation')
    return { 'mismatch', its_operation, state }
  end
  return { 'rules_changed', its_fingerprint }
end
if state == 'completed' then
  local completed_at, status, headers, body, expires_at = living('completed_at', 'status', 'headers', 'body', 'expires_at')
  return { 'completed', completed_at, expires_at, text(expires_at - now), status, headers, body }
end
if state == 'unknown' then
  local reason, since = living('doubt_reason', 'doubted_at')
  return { 'unknown', reason, since }
end
local is_own = owner ~= '' and its_owner == owner
local left = lease_until - now
if left <= 0 then
  return abandoned(is_own)
end
if not is_own then
  return { 'in_flight', text(left) }
end
local fence, attempt, its_spelling, created_at = living('fence', 'attempt', 'spelling', 'created_at')
return { 'acquired', fence, attempt, text(left), its_spelling, created_at }
