-- doubt: one guarded statement for a batch; locks and answers as extend_batch does. When the first try's connection was
-- lost (`is_again`), what stands there as this call would have left it is its own work.
WITH asked AS MATERIALIZED (
    SELECT a.*, clock_timestamp() + $1::interval AS now
    FROM unnest($2::uuid[], $3::bigint[], $4::uuid[], $5::text[], $6::boolean[])
         AS a (record, fence, owner, reason, is_again)
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
    SET state = 'unknown', doubted_at = h.now, doubt_reason = h.reason, lease_until = NULL,
        expires_at = h.now + r.retention
    FROM held h
    WHERE r.record = h.record
    RETURNING r.record
)
SELECT record, 'done' AS verdict FROM changed
UNION ALL
SELECT a.record, CASE WHEN a.is_again AND r.state = 'unknown' AND r.doubt_reason = a.reason THEN 'done' ELSE 'stale' END
FROM asked a
LEFT JOIN LATERAL (
    SELECT r.state, r.doubt_reason
    FROM oncegate.records r
    WHERE r.record = a.record AND r.fence = a.fence AND (a.owner IS NULL OR r.owner = a.owner)
      AND r.expires_at > a.now
    LIMIT 1
) r ON TRUE
WHERE r.state IS DISTINCT FROM 'in_flight'
