-- list: one page of one index, in no order. Answers where the next page begins and, of each record that matches, its
-- birth and digest. KEYS 1 is what the keys of this tag's records begin with. Nothing is written.
local state, cursor, count = ARGV[2], ARGV[3], ARGV[4]
local only_abandoned, has_scope, scope, part, key, prefix = unpack(ARGV, 5, 10)
local page = redis.call('ZSCAN', index[state], cursor, 'COUNT', count)
local found = {}
for at = 1, #page[2], 2 do
  digest = page[2][at]
  record = KEYS[1] .. digest
  local its_state, created_at, lease_until, its_scope, its_key =
    living('state', 'created_at', 'lease_until', 'scope', 'key')
  if its_state == state
    and (only_abandoned == '0' or (state == 'in_flight' and tonumber(lease_until) <= now))
    and (has_scope == '0' or its_scope == scope)
    and string.find(its_scope, part, 1, true)
    and (key == '' or its_key == key)
    and string.sub(digest, 1, #prefix) == prefix then
    table.insert(found, created_at)
    table.insert(found, digest)
  end
end
return { page[1], found }
