-- doubt: one guarded statement.
UPDATE records
SET state = 'unknown', doubted_at = :now, doubt_reason = :reason, lease_until = NULL, expires_at = :now + retention
WHERE record = :record AND fence = :fence AND (:owner IS NULL OR owner = :owner) AND state = 'in_flight'
  AND expires_at > :now
