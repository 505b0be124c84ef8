-- What every script begins with: the record and its indexes, the clock, and what several verbs share. A script runs
-- alone and whole on the server, and that is what makes each verb atomic.
--
-- KEYS: 1 the record; 2 its tag (the last fence, and what is known of the server); 3 leases by their end; 4 to 6 the
-- records in flight, unknown and completed, by the end of their lives; 7 what is remembered of this call; 8 the audit.
-- All of them have one hash tag. ARGV: 1 the time in microseconds, or nothing for the server's.
local record, tag, leases, call, audit = KEYS[1], KEYS[2], KEYS[3], KEYS[7], KEYS[8]
local index = { in_flight = KEYS[4], unknown = KEYS[5], completed = KEYS[6] }
local digest = string.sub(record, -32)

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local now = tonumber(ARGV[1]) or clock()

-- Numbers are doubles here: whole microseconds are exact until the year 2255, but only when written like this.
local function text(number)
  return string.format('%d', number)
end

-- The named fields; nothing at all if the record is absent or expired.
local function living(...)
  local fields = redis.call('HMGET', record, 'expires_at', ...)
  if fields[1] and tonumber(fields[1]) > now then
    return unpack(fields, 2)
  end
end

-- The state, if a lease of this fence and owner may write the record. An empty owner is none.
local function leased(fence, owner)
  local state, its_fence, its_owner = living('state', 'fence', 'owner')
  if its_fence == fence and (owner == '' or its_owner == owner) then
    return state
  end
end

-- Whether the record still is what an operator saw.
local function seen(fence, state)
  local its_state, its_fence = living('state', 'fence')
  return its_fence == fence and its_state == state
end

-- Writes a state, its life and other fields, and moves the record among the indexes. Redis forgets the record a
-- little after its life; what decides that it is absent is `expires_at`.
local function write(from, to, life, ...)
  local expires_at = text(now + life)
  redis.call('HSET', record, 'state', to, 'expires_at', expires_at, ...)
  redis.call('PEXPIRE', record, text(math.ceil(life / 1000) + 1))
  if from and from ~= to then
    redis.call('ZREM', index[from], digest)
    redis.call('ZREM', leases, digest)
  end
  redis.call('ZADD', index[to], expires_at, digest)
end

local function remove(from)
  redis.call('DEL', record)
  redis.call('ZREM', index[from], digest)
  redis.call('ZREM', leases, digest)
end

-- Greater than every fence of this tag, also when Redis has lost them: never below the server's own clock, and faster
-- than one fence in a microsecond no server draws them. So a fence repeats only if the data are lost and the clock
-- goes back as well, by more than the time for which a server that lost its data refuses claims.
local function next_fence()
  local last = redis.call('HGET', tag, 'fence') or 0
  local fence = text(math.max(last + 1, clock()))
  redis.call('HSET', tag, 'fence', fence)
  return fence
end

-- What a lease that was given back leaves: nothing, or the abandoned record that it took over.
local function give_back(from)
  local attempt, lease, retention = living('attempt', 'lease', 'retention')
  if tonumber(attempt) == 1 then
    return remove(from)
  end
  write(from, 'in_flight', tonumber(retention), 'fence', next_fence(), 'owner', '', 'attempt', text(attempt - 1),
    'lease', text(math.floor(lease / 2)), 'lease_until', text(now))
  redis.call('ZADD', leases, text(now), digest)
end

-- A call whose reply was lost may be sent again by the driver. One that would be stale then is remembered for longer
-- than any driver tries, in milliseconds.
local function is_known()
  return redis.call('EXISTS', call) == 1
end

local function done()
  redis.call('SET', call, '', 'PX', 60000)
  return 1
end

-- The entries of one tag that are kept; older ones make room.
local AUDIT_MAX = 1000

local function note(verb, fence, state, status, operation, operator, reason, force)
  -- By the server's own clock too: the entries of all tags are sorted by it.
  local entry = { text(clock()), text(now), verb, digest, fence, state, status, operation, operator, reason, force }
  redis.call('LPUSH', audit, cjson.encode(entry))
  redis.call('LTRIM', audit, 0, AUDIT_MAX - 1)
end

-- Microseconds for which claims are refused, since the server may have lost what it acknowledged: it lacks what this
-- tag said of it, or it has another replication id, which a restart and a promotion give it. Until then whoever held
-- a lease may still execute.
local function cold(length)
  if length == 0 then
    return 0
  end
  local present = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
  local known, cold_until = unpack(redis.call('HMGET', tag, 'replication_id', 'cold_until'))
  if known ~= present then
    cold_until = text(now + length)
    redis.call('HSET', tag, 'replication_id', present, 'cold_until', cold_until)
  end
  return math.max(cold_until - now, 0)
end

