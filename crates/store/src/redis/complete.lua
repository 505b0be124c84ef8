-- complete: from in flight and unknown, under this fence and owner. A completion that its own owner finds stored is
-- its earlier success; one without an owner is known by its call.
local fence, owner, status, headers, has_body, body = unpack(ARGV, 2, 7)
local state = leased(fence, owner)
if (owner ~= '' and state == 'completed') or (owner == '' and is_known()) then
  return 1
end
if state ~= 'in_flight' and state ~= 'unknown' then
  return 0
end
local retention = living('retention')
write(state, 'completed', tonumber(retention), 'completed_at', text(now), 'status', status, 'headers', headers)
if has_body == '1' then
  redis.call('HSET', record, 'body', body)
end
if owner == '' then
  return done()
end
return 1
