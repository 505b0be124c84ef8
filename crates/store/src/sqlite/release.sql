-- release: one guarded statement; a takeover is given back by give_back.sql instead. The state matters: a
-- completion keeps the fence.
DELETE FROM records
WHERE record = :record AND fence = :fence AND (:owner IS NULL OR owner = :owner) AND state = 'in_flight'
  AND attempt = 1 AND expires_at > :now
