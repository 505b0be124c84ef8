-- purge: the record and the entry of the audit in one guarded statement; the response follows by trigger. A live lease
-- is deleted by force only. Locks and answers as extend_batch does. When the first try's connection was lost (`is_again`),
-- the latest entries of the audit tell whether it was applied: others delete records too.
WITH asked AS MATERIALIZED (
    SELECT a.*, clock_timestamp() + $1::interval AS now
    FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::boolean[],
                $9::boolean[])
         AS a (record, fence, state, verb, operator, reason, forced, is_again)
    ORDER BY a.record
),
held AS MATERIALIZED (
    SELECT a.*
    FROM asked a
    CROSS JOIN LATERAL (
        SELECT 1
        FROM oncegate.records r
        WHERE r.record = a.record AND r.fence = a.fence AND r.state = a.state AND r.expires_at > a.now
          AND (a.forced OR r.lease_until IS NULL OR r.lease_until <= a.now)
        FOR UPDATE SKIP LOCKED
    ) r
),
deleted AS (
    DELETE FROM oncegate.records r
    USING held h
    WHERE r.record = h.record
    RETURNING r.record, r.fence, r.operation, h.now, h.state, h.verb, h.operator, h.reason, h.forced
),
noted AS (
    INSERT INTO oncegate.audit (at, verb, record, operation, fence, state, operator, reason, forced)
    SELECT now, verb, record, operation, fence, state, operator, reason, forced FROM deleted
)
SELECT record, 'done' AS verdict FROM deleted
UNION ALL
SELECT a.record,
       CASE
           WHEN a.is_again AND EXISTS (
               SELECT
               FROM (SELECT * FROM oncegate.audit ORDER BY entry DESC LIMIT 1000) n
               WHERE n.record = a.record AND n.fence = a.fence AND n.verb = a.verb AND n.operator = a.operator
                 AND n.reason = a.reason
           ) THEN 'done'
           ELSE 'stale'
       END
FROM asked a
LEFT JOIN LATERAL (
    SELECT r.fence, r.state, r.lease_until
    FROM oncegate.records r
    WHERE r.record = a.record AND r.expires_at > a.now
    LIMIT 1
) r ON TRUE
WHERE (r.fence = a.fence AND r.state = a.state
       AND (a.forced OR r.lease_until IS NULL OR r.lease_until <= a.now)) IS NOT TRUE
