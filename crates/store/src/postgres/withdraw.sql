-- withdraw: as release.sql, but by the owner alone, who does not know the fence it was given; and what was never
-- sent does not stay unknown.
--
-- The claim may still be at work on a connection that its sender has lost, and then this snapshot does not show it.
-- So the record's lock is taken first, which that claim keeps until its commit: not obtained, no row, and asked
-- again. Obtained, and nothing found, is `free`: what ended before is not in this snapshot either, but it is in that
-- of the next statement, which is sure (`is_sure`) and says `stale`.
WITH asked AS MATERIALIZED (
    SELECT a.*, clock_timestamp() + $1::interval AS now
    FROM unnest($2::uuid[], $3::bigint[], $4::uuid[], $5::boolean[]) AS a (record, gate, owner, is_sure)
    ORDER BY a.record
),
gated AS MATERIALIZED (
    SELECT * FROM asked WHERE pg_try_advisory_xact_lock(gate)
),
held AS MATERIALIZED (
    SELECT a.*, r.attempt
    FROM gated a
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
SELECT a.record, CASE WHEN a.is_sure THEN 'stale' ELSE 'free' END
FROM gated a
LEFT JOIN LATERAL (
    SELECT 1 AS found
    FROM oncegate.records r
    WHERE r.record = a.record AND r.owner = a.owner AND r.state IN ('in_flight', 'unknown') AND r.expires_at > a.now
    LIMIT 1
) r ON TRUE
WHERE r.found IS NULL
