-- open: what this tag holds from now on as long as its data are whole. The key is that of the tag, in place of an entry.
redis.call('HSET', entry, 'sentinel', ARGV[3], 'generation', generation, 'server', server())
return { text(now), server() }
