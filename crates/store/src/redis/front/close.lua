-- close: no claim is taken for this tag any more. The key is that of the tag, in place of an entry.
redis.call('DEL', entry)
return { text(now) }
