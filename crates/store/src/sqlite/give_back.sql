-- release and withdraw of a takeover: what was abandoned is abandoned again, since an earlier attempt may have
-- had an effect. One guarded statement; the fence is new, so that a second one is stale.
UPDATE records
SET state = 'in_flight', fence = :next, owner = NULL, attempt = attempt - 1, lease = lease / 2, lease_until = :now,
    expires_at = :now + retention, doubted_at = NULL, doubt_reason = NULL
WHERE record = :record AND (:fence IS NULL OR fence = :fence) AND (:owner IS NULL OR owner = :owner)
  AND (state = 'in_flight' OR (state = 'unknown' AND :fence IS NULL)) AND attempt > 1 AND expires_at > :now
