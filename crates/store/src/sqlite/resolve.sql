-- resolve: one guarded statement. The response is inserted by respond.sql and the entry of the audit by
-- note.sql in the same transaction, only if this changed a row. The owner goes, so that an execution that
-- still runs does not take the operator's response for its own (see completed.sql).
UPDATE records
SET state = 'completed', status = :status, completed_at = :now, expires_at = :now + retention, owner = NULL,
    lease_until = NULL, doubted_at = NULL, doubt_reason = NULL
WHERE record = :record AND fence = :fence AND state = :state AND state IN ('in_flight', 'unknown')
  AND expires_at > :now
RETURNING operation
