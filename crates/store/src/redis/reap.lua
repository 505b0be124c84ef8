-- reap: deletes expired records of one tag, and makes unknown what was abandoned and may not be taken over, so many of
-- each. Redis itself forgets expired records, but not that they stood in an index. KEYS 1 is what the keys of this
-- tag's records begin with.
local expired_max, doubted_max = tonumber(ARGV[2]), tonumber(ARGV[3])
local PAGE = 256
local prefix, expired, doubted = KEYS[1], 0, 0

local function bring(member)
  digest = member
  record = prefix .. member
end

for _, key in pairs(index) do
  while expired < expired_max do
    local due = redis.call('ZRANGEBYSCORE', key, '-inf', text(now), 'LIMIT', 0, math.min(PAGE, expired_max - expired))
    if #due == 0 then
      break
    end
    for _, member in ipairs(due) do
      bring(member)
      -- A later life of the record stands elsewhere, or in the same index under a later time.
      if not living('state') then
        redis.call('DEL', record)
        expired = expired + 1
      end
      redis.call('ZREM', key, member)
    end
  end
end

while doubted < doubted_max do
  local due = redis.call('ZRANGEBYSCORE', leases, '-inf', text(now), 'LIMIT', 0, math.min(PAGE, doubted_max - doubted))
  if #due == 0 then
    break
  end
  for _, member in ipairs(due) do
    bring(member)
    local state, rule, retention = living('state', 'on_abandoned', 'retention')
    if state == 'in_flight' and rule == 'unknown' then
      write('in_flight', 'unknown', tonumber(retention), 'doubted_at', text(now), 'doubt_reason', 'worker died')
      doubted = doubted + 1
    end
    -- What may be taken over waits for its taker, and no pass needs to look at it again.
    redis.call('ZREM', leases, member)
  end
end
return { expired, doubted }
