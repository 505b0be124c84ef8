-- extend: one guarded statement for a batch. A lease that ended may still be extended while nobody took over.
--
-- `held` locks each row that may be left, in the order of the records, and passes over one that a foreign
-- transaction has locked: such a record is missing in the answer and is asked again. What is stale is judged by the
-- statement's snapshot, so a row that was only passed over is never called stale.
WITH asked AS MATERIALIZED (
    SELECT a.*, clock_timestamp() + $1::interval AS now
    FROM unnest($2::uuid[], $3::bigint[], $4::uuid[], $5::interval[]) AS a (record, fence, owner, length)
    ORDER BY a.record
),
held AS MATERIALIZED (
    SELECT a.*
    FROM asked a
    CROSS JOIN LATERAL (
        SELECT 1
        FROM oncegate.records r
        WHERE r.record = a.record AND r.fence = a.fence AND (a.owner IS NULL OR r.owner = a.owner)
          AND r.state = 'in_flight' AND r.expires_at > a.now
        FOR UPDATE SKIP LOCKED
    ) r
),
changed AS (
    UPDATE oncegate.records r
    SET lease_until = h.now + h.length, expires_at = GREATEST(h.now + r.retention, h.now + h.length)
    FROM held h
    WHERE r.record = h.record
    RETURNING r.record
)
SELECT record, 'done' AS verdict FROM changed
UNION ALL
SELECT a.record, 'stale'
FROM asked a
LEFT JOIN LATERAL (
    SELECT 1 AS found
    FROM oncegate.records r
    WHERE r.record = a.record AND r.fence = a.fence AND (a.owner IS NULL OR r.owner = a.owner)
      AND r.state = 'in_flight' AND r.expires_at > a.now
    LIMIT 1
) r ON TRUE
WHERE r.found IS NULL
