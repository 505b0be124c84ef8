-- reap: what was abandoned and may not be taken over becomes unknown. What else is due has expired and goes by
-- reap_expired.sql. Bounded: the index gives what is due without a scan, and of twice as many as either may
-- reap at once, one of both finds enough. Where PostgreSQL differs: it indexes no column that changes and walks
-- a watermark.
UPDATE records
SET state = 'unknown', doubted_at = :now, doubt_reason = :reason, lease_until = NULL, expires_at = :now + retention
WHERE born IN (SELECT born
               FROM (SELECT born, state, on_abandoned, lease_until, expires_at
                     FROM records INDEXED BY records_open
                     WHERE completed_at IS NULL
                       AND iif(on_abandoned = 'unknown', coalesce(lease_until, expires_at), expires_at) <= :now
                     LIMIT 2 * :rows)
               WHERE state = 'in_flight' AND on_abandoned = 'unknown' AND lease_until <= :now AND expires_at > :now
               LIMIT :rows)
