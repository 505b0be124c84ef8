-- withdraw: from in flight and unknown, by the owner alone. It is remembered, done or stale, so that its claim does
-- not stand if it arrives later; and a withdrawal that is sent again is answered as the first time.
local handle, number, owner = ARGV[2], ARGV[3], ARGV[4]
local before = redis.call('GET', call)
if before == handle .. ':' .. number .. ':1' then
  return 1
end
local state, its_owner = living('state', 'owner')
local is_withdrawn = its_owner == owner and state ~= 'completed'
if is_withdrawn then
  give_back(state)
end
redis.call('SET', call, handle .. ':' .. number .. (is_withdrawn and ':1' or ':0'), 'PX', 60000)
return is_withdrawn and 1 or 0
