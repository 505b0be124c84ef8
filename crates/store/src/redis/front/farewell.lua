-- farewell: forgets the outbox of a gateway that seemed dead, if it is empty. One that only was slow may have left something
-- there since it was read. The key is that of the outbox, in place of an entry.
if #redis.call('XRANGE', entry, '-', '+', 'COUNT', 1) > 0 then
  return { text(now), '0' }
end
redis.call('DEL', entry)
return { text(now), '1' }
