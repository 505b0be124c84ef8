-- extend: one guarded statement. A lease that ended may still be extended while nobody took over.
UPDATE records
SET lease_until = :lease_until, expires_at = max(:now + retention, :lease_until)
WHERE record = :record AND fence = :fence AND (:owner IS NULL OR owner = :owner) AND state = 'in_flight'
  AND expires_at > :now
