-- take: the claim of a key that PostgreSQL does not know, as it said to whoever left this token. Judged and written in one
-- script, with the entry of the outbox: what is acknowledged is in both.
--
-- KEYS: 2 what this tag was given when the outbox was opened; 3 the outbox of this gateway for this tag.
local TRUST, token, sentinel, buried, fence = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6], ARGV[7]
local id, fingerprint, owner, operation, spelling, backend, on_abandoned = unpack(ARGV, 8, 14)
local lease, retention, created_at = unpack(ARGV, 15, 17)

local its_fence, its_owner, its_state, by, by_until, asked, its_created_at, kept_until, sent =
  fields('fence', 'owner', 'state', 'by', 'by_until', 'asked', 'created_at', 'kept_until', 'sent')

-- The call was sent twice.
if its_fence == fence and its_owner == owner and owner ~= '' then
  return { text(now), 'taken', sent }
end
-- What was acknowledged here may be lost: the front is new, was restarted, or follows another one's data.
local its_sentinel, its_generation, its_server = unpack(redis.call('HMGET', KEYS[2], 'sentinel', 'generation', 'server'))
if its_sentinel ~= sentinel or its_generation ~= generation or its_server ~= server() then
  return { text(now), 'cold' }
end
if by ~= token or tonumber(by_until) <= now then
  return { text(now), 'gone' }
end
-- PostgreSQL may give a number again that it gave before it was killed. Under one that is not the largest nothing would be
-- kept there.
if tonumber(fence) <= math.max(tonumber(its_fence or 0), tonumber(buried) or 0) then
  return { text(now), 'small' }
end
-- PostgreSQL does not know it yet, unless its life has ended or it was deleted there.
local is_over = tonumber(kept_until or 0) <= now
local is_buried = is_over or buried ~= '' and tonumber(its_fence or 0) <= tonumber(buried)
if its_created_at and its_state ~= 'released' and not is_buried then
  return { text(now), 'held', redis.call('HGETALL', entry) }
end
-- Lives are counted from before PostgreSQL was asked. Until the end of its life the entry must stand: it is all that
-- others can see of a claim that is not drained.
asked = tonumber(asked)
sent = send(KEYS[3])
confirm(fence, 'in_flight', asked + math.min(lease, TRUST), asked + retention, 'id', id, 'fingerprint', fingerprint,
  'owner', owner, 'operation', operation, 'spelling', spelling, 'backend', backend, 'on_abandoned', on_abandoned,
  'lease', lease, 'retention', retention, 'created_at', created_at, 'lease_until', text(asked + lease),
  'kept_until', text(asked + retention), 'sent', sent)
return { text(now), 'taken', sent }
