-- finish: the completion of a claim that was taken here, with the entry of the outbox. Where PostgreSQL has a say in it (the
-- lease ends too soon for it to know in time, somebody has settled the record, or the claim was not taken here), `back`.
--
-- KEYS: 2 the outbox of this gateway for this tag.
local fence, owner, limit, asked, completed_at, status, headers, has_body, body = unpack(ARGV, 3, 11)
local its_fence, its_owner, state, lease_until, kept_until, retention, created_at, is_settled, sent =
  fields('fence', 'owner', 'state', 'lease_until', 'kept_until', 'retention', 'created_at', 'is_settled', 'sent')

if its_fence ~= fence or its_owner ~= owner or not created_at or tonumber(kept_until) <= now then
  return { text(now), 'back' }
end
-- Its own earlier success. Whether another response is one too PostgreSQL says, which has to know the first one by then.
local its_status, its_headers, its_body = fields('status', 'headers', 'body')
if state == 'completed' and its_status == status and its_headers == headers and its_body == (has_body == '1' and body) then
  return { text(now), 'done', sent, retention }
end
if state ~= 'in_flight' or is_settled or tonumber(lease_until) < now + limit then
  return { text(now), 'back' }
end
local until_end = math.min(tonumber(asked), now) + retention
sent = send(KEYS[2])
redis.call('HSET', entry, 'state', 'completed', 'by', '', 'trusted_until', text(until_end), 'completed_at', completed_at,
  'expires_at', text(completed_at + retention), 'status', status, 'headers', headers, 'kept_until', text(until_end),
  'sent', sent)
if has_body == '1' then
  redis.call('HSET', entry, 'body', body)
end
keep_until(until_end)
return { text(now), 'done', sent, retention }
