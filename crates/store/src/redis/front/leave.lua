-- leave: PostgreSQL told nothing to the claim that left this token; the next one asks at once.
local token = ARGV[3]
local state, by = fields('state', 'by')
if by == token then
  if state then
    redis.call('HSET', entry, 'by', '')
  else
    redis.call('DEL', entry)
  end
end
return { text(now), '1' }
