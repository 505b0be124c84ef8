-- reap: what was abandoned and may not be taken over becomes unknown. Bounded: the partial index gives the
-- rows without a scan. Where PostgreSQL differs: it indexes no column that changes and walks a watermark.
UPDATE records
SET state = 'unknown', doubted_at = :now, doubt_reason = :reason, lease_until = NULL, expires_at = :now + retention
WHERE born IN (SELECT born
               FROM records INDEXED BY records_open
               WHERE state <> 'completed' AND state = 'in_flight' AND on_abandoned = 'unknown'
                 AND lease_until <= :now AND expires_at > :now
               LIMIT :rows)
