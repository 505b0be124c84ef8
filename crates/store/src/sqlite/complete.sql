-- complete: the guarded transition. The response is inserted by respond.sql in the same transaction,
-- and only if this changed a row. PostgreSQL does both in one statement (a data-modifying WITH, which
-- SQLite does not have).
UPDATE records
SET state = 'completed', status = :status, completed_at = :now, expires_at = :now + retention,
    lease_until = NULL, doubted_at = NULL, doubt_reason = NULL
WHERE record = :record AND fence = :fence AND (:owner IS NULL OR owner = :owner) AND state IN ('in_flight', 'unknown')
  AND expires_at > :now
