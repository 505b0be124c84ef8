-- reap: deletes what expired and doubts what was abandoned and may not be taken over, at most so many of each. Rows
-- that somebody holds are passed over: a later pass finds them. Responses follow by trigger. statement_timestamp(), because a volatile clock would
-- be asked once for every row and keep the planner from an index.
WITH expired AS MATERIALIZED (
    SELECT record
    FROM oncegate.records
    WHERE expires_at <= statement_timestamp() + $1::interval
    ORDER BY created_at
    LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
),
deleted AS (
    DELETE FROM oncegate.records r USING expired e WHERE r.record = e.record RETURNING r.record
),
abandoned AS MATERIALIZED (
    SELECT record
    FROM oncegate.records
    WHERE state = 'in_flight' AND on_abandoned = 'unknown' AND lease_until <= statement_timestamp() + $1::interval
      AND expires_at > statement_timestamp() + $1::interval
    ORDER BY created_at
    LIMIT $2::bigint
    FOR UPDATE SKIP LOCKED
),
doubted AS (
    UPDATE oncegate.records r
    SET state = 'unknown', doubted_at = statement_timestamp() + $1::interval, doubt_reason = 'worker died',
        lease_until = NULL, expires_at = statement_timestamp() + $1::interval + r.retention
    FROM abandoned a
    WHERE r.record = a.record
    RETURNING r.record
)
SELECT (SELECT count(*) FROM deleted) AS expired, (SELECT count(*) FROM doubted) AS doubted
