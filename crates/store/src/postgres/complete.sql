-- complete: the guarded transition and the response, in one statement for a batch; locks and answers as extend.sql
-- does. What the same owner completed before, under the same fence, is this call's own earlier success: `done`,
-- and nothing is written.
WITH asked AS MATERIALIZED (
    SELECT a.*, clock_timestamp() + $1::interval AS now
    FROM unnest($2::uuid[], $3::bigint[], $4::uuid[], $5::int[], $6::text[], $7::bytea[])
         AS a (record, fence, owner, status, headers, body)
    ORDER BY a.record
),
held AS MATERIALIZED (
    SELECT a.*
    FROM asked a
    CROSS JOIN LATERAL (
        SELECT 1
        FROM oncegate.records r
        WHERE r.record = a.record AND r.fence = a.fence AND (a.owner IS NULL OR r.owner = a.owner)
          AND r.state IN ('in_flight', 'unknown') AND r.expires_at > a.now
        FOR UPDATE SKIP LOCKED
    ) r
),
changed AS (
    UPDATE oncegate.records r
    SET state = 'completed', status = h.status, completed_at = h.now, expires_at = h.now + r.retention,
        lease_until = NULL, doubted_at = NULL, doubt_reason = NULL
    FROM held h
    WHERE r.record = h.record
    RETURNING r.record, r.fence, h.headers, h.body
),
responded AS (
    INSERT INTO oncegate.responses (record, fence, headers, body)
    SELECT record, fence, headers::jsonb, body FROM changed
)
SELECT record, 'done' AS verdict FROM changed
UNION ALL
SELECT a.record, CASE WHEN r.state = 'completed' AND r.is_owner THEN 'done' ELSE 'stale' END
FROM asked a
LEFT JOIN LATERAL (
    SELECT r.state, r.owner = a.owner AS is_owner
    FROM oncegate.records r
    WHERE r.record = a.record AND r.fence = a.fence AND (a.owner IS NULL OR r.owner = a.owner)
      AND r.expires_at > a.now
    LIMIT 1
) r ON TRUE
WHERE r.state IS NULL OR r.state NOT IN ('in_flight', 'unknown')
