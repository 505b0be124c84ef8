-- get: the named fields of a living record; nothing is written.
if not living('state') then
  return false
end
return redis.call('HMGET', record, unpack(ARGV, 2))
