-- settle: what was taken here of a record, for whoever asks PostgreSQL of it. With `closing`, PostgreSQL alone writes it from
-- now on: nothing more is taken or finished here, and a claim asks there.
local closing = ARGV[3] == '1'
adopt()
local created_at, state = fields('created_at', 'state')
local whole = {}
if created_at and state ~= 'released' then
  whole = redis.call('HGETALL', entry)
end
if closing then
  distrust('')
  if redis.call('EXISTS', entry) == 1 then
    redis.call('HSET', entry, 'is_settled', '1')
  end
end
return { text(now), whole }
