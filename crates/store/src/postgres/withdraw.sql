-- withdraw: as release.sql, but by the owner alone, who does not know the fence it was given; and what was never
-- sent does not stay unknown.
WITH asked AS MATERIALIZED (
    SELECT a.*, clock_timestamp() + $1::interval AS now
    FROM unnest($2::uuid[], $3::uuid[]) AS a (record, owner)
    ORDER BY a.record
),
held AS MATERIALIZED (
    SELECT a.*, r.attempt
    FROM asked a
    CROSS JOIN LATERAL (
        SELECT r.attempt
        FROM oncegate.records r
        WHERE r.record = a.record AND r.owner = a.owner AND r.state IN ('in_flight', 'unknown')
          AND r.expires_at > a.now
        FOR UPDATE SKIP LOCKED
    ) r
),
deleted AS (
    DELETE FROM oncegate.records r
    USING held h
    WHERE r.record = h.record AND h.attempt = 1
    RETURNING r.record
),
given_back AS (
    UPDATE oncegate.records r
    SET state = 'in_flight', fence = nextval('oncegate.fences'), owner = NULL, attempt = r.attempt - 1,
        lease = r.lease / 2, lease_until = h.now, doubted_at = NULL, doubt_reason = NULL,
        expires_at = h.now + r.retention
    FROM held h
    WHERE r.record = h.record AND h.attempt > 1
    RETURNING r.record
)
SELECT record, 'done' AS verdict FROM deleted
UNION ALL
SELECT record, 'done' FROM given_back
UNION ALL
SELECT a.record, 'stale'
FROM asked a
LEFT JOIN LATERAL (
    SELECT 1 AS found
    FROM oncegate.records r
    WHERE r.record = a.record AND r.owner = a.owner AND r.state IN ('in_flight', 'unknown') AND r.expires_at > a.now
    LIMIT 1
) r ON TRUE
WHERE r.found IS NULL
