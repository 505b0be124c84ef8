-- resolve: the record, its response and the entry of the audit in one guarded statement. The owner goes, so that an
-- execution that still runs does not take the operator's response for its own. Locks and answers as
-- extend_batch does. When the first try's connection was lost (`is_again`), the latest entries of the audit tell whether
-- it was applied: a backend's own completion leaves no owner either.
WITH asked AS MATERIALIZED (
    SELECT a.*, clock_timestamp() + $1::interval AS now
    FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::int[], $6::text[], $7::bytea[], $8::text[], $9::text[],
                $10::boolean[], $11::boolean[])
         AS a (record, fence, state, status, headers, body, operator, reason, forced, is_again)
    ORDER BY a.record
),
held AS MATERIALIZED (
    SELECT a.*
    FROM asked a
    CROSS JOIN LATERAL (
        SELECT 1
        FROM oncegate.records r
        WHERE r.record = a.record AND r.fence = a.fence AND r.state = a.state AND r.state IN ('in_flight', 'unknown')
          AND r.expires_at > a.now
        FOR UPDATE SKIP LOCKED
    ) r
),
changed AS (
    UPDATE oncegate.records r
    SET state = 'completed', status = h.status, completed_at = h.now, expires_at = h.now + r.retention, owner = NULL,
        lease_until = NULL, doubted_at = NULL, doubt_reason = NULL
    FROM held h
    WHERE r.record = h.record
    RETURNING r.record, r.fence, r.operation, h.now, h.state, h.status, h.headers, h.body, h.operator, h.reason, h.forced
),
responded AS (
    INSERT INTO oncegate.responses (record, fence, headers, body)
    SELECT record, fence, headers::jsonb, body FROM changed
),
noted AS (
    INSERT INTO oncegate.audit (at, verb, record, operation, fence, state, status, operator, reason, forced)
    SELECT now, 'resolve', record, operation, fence, state, status, operator, reason, forced FROM changed
)
SELECT record, 'done' AS verdict FROM changed
UNION ALL
SELECT a.record,
       CASE
           WHEN a.is_again AND EXISTS (
               SELECT
               FROM (SELECT * FROM oncegate.audit ORDER BY entry DESC LIMIT 1000) n
               WHERE n.record = a.record AND n.fence = a.fence AND n.verb = 'resolve' AND n.operator = a.operator
                 AND n.reason = a.reason
           ) THEN 'done'
           ELSE 'stale'
       END
FROM asked a
LEFT JOIN LATERAL (
    SELECT r.state
    FROM oncegate.records r
    WHERE r.record = a.record AND r.fence = a.fence AND r.expires_at > a.now
    LIMIT 1
) r ON TRUE
WHERE (r.state = a.state AND r.state IN ('in_flight', 'unknown')) IS NOT TRUE
