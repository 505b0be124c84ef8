-- release: one guarded statement. The state matters: a completion keeps the fence.
DELETE FROM records
WHERE record = :record AND fence = :fence AND (:owner IS NULL OR owner = :owner) AND state = 'in_flight'
  AND expires_at > :now
