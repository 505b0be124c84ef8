-- bury: nothing of this fence, or of a smaller one, is kept for so long: the record is being deleted.
local fence, life = ARGV[3], tonumber(ARGV[4])
adopt()
local its_fence = fields('fence')
if its_fence and tonumber(its_fence) > tonumber(fence) then
  return { text(now), '0' }
end
confirm(fence, 'released', now, now + life, 'kept_until', text(now + life))
return { text(now), '1' }
