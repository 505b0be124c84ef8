-- resolve: from in flight, under a live lease too, and unknown, if the record is still as seen. The owner goes.
local fence, state, status, headers, has_body, body = unpack(ARGV, 2, 7)
local operator, reason, force = unpack(ARGV, 8, 10)
if is_known() then
  return 1
end
if state == 'completed' or not seen(fence, state) then
  return 0
end
local retention, operation = living('retention', 'operation')
write(state, 'completed', tonumber(retention), 'owner', '', 'completed_at', text(now), 'status', status,
  'headers', headers)
if has_body == '1' then
  redis.call('HSET', record, 'body', body)
end
note('resolve', fence, state, status, operation, operator, reason, force)
return done()
