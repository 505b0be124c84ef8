-- doubt: only from in flight, under this fence and owner.
local fence, owner, reason = ARGV[2], ARGV[3], ARGV[4]
if is_known() then
  return 1
end
if leased(fence, owner) ~= 'in_flight' then
  return 0
end
local retention = living('retention')
write('in_flight', 'unknown', tonumber(retention), 'doubted_at', text(now), 'doubt_reason', reason)
return done()
