-- What every script of the front begins with. The front answers what PostgreSQL has confirmed, and decides nothing.
--
-- KEYS 1: the entry, a hash. What PostgreSQL confirmed stands there with its fence, and is trusted until `trusted_until`;
-- `state` is in_flight, completed or released. Besides, `by` may stand there: the token of whoever is asking PostgreSQL
-- just now, until `by_until`, since `asked`. An entry of another generation is absent, and so is a lost one.
-- ARGV: 1 the time in microseconds, or nothing for the server's; 2 the generation.
local entry, generation = KEYS[1], ARGV[2]

local function clock()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end

local now = tonumber(ARGV[1]) or clock()

-- Numbers are doubles here: whole microseconds are exact until the year 2255, but only when written like this.
local function text(number)
  return string.format('%d', number)
end

-- The named fields; nothing at all of another generation.
local function fields(...)
  local found = redis.call('HMGET', entry, 'generation', ...)
  if found[1] == generation then
    return unpack(found, 2)
  end
end

-- Redis forgets the entry a little after this; what decides is `trusted_until`.
local function keep_until(last)
  redis.call('PEXPIRE', entry, text(math.max(math.ceil((last - now) / 1000), 0) + 1))
end

-- Writes a whole entry. Whoever asks meanwhile has to ask again: what it was told may be older.
local function confirm(fence, state, trusted_until, kept_until, ...)
  redis.call('DEL', entry)
  redis.call('HSET', entry, 'generation', generation, 'fence', fence, 'state', state,
    'trusted_until', text(trusted_until), ...)
  keep_until(kept_until)
end

-- Makes this generation's what stands here, before it is written to: nothing is left of another one, but for what was taken
-- here. That is no copy: PostgreSQL may not have it yet. It answers nothing any more, and is there for who asks PostgreSQL.
local function adopt()
  local its_generation, state, created_at = unpack(redis.call('HMGET', entry, 'generation', 'state', 'created_at'))
  if its_generation == generation then
    return
  end
  if created_at and state ~= 'released' then
    redis.call('HSET', entry, 'generation', generation, 'by', '', 'trusted_until', '0')
  else
    redis.call('DEL', entry)
  end
end

-- PostgreSQL is asked next, also by whoever asks just now. What is completed stays, unless a larger fence is known.
local function distrust(fence)
  adopt()
  local its_fence, state = fields('fence', 'state')
  if state == 'completed' and fence ~= '' and tonumber(its_fence) < tonumber(fence) then
    redis.call('DEL', entry)
  elseif state == 'completed' or state == 'released' then
    redis.call('HSET', entry, 'by', '')
  elseif state then
    redis.call('HSET', entry, 'by', '', 'trusted_until', '0')
  else
    redis.call('DEL', entry)
  end
end

-- Another one after a restart or a promotion.
local function server()
  return string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
end

-- Leaves the entry's name in an outbox, for whoever drains it should its gateway die. The entry itself stands here, in the same
-- slot, for as long as it lives.
local function send(outbox)
  return redis.call('XADD', outbox, '*', 'entry', entry)
end
