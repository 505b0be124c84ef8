-- get: reads a batch of living records, each with its response, in one snapshot. It locks nothing.
WITH asked AS MATERIALIZED (
    SELECT a.*, clock_timestamp() + $1::interval AS now
    FROM unnest($2::uuid[]) AS a (record)
    ORDER BY a.record
)
SELECT a.record, r.scope, r.key, r.operation, r.spelling, r.fingerprint, r.backend, r.on_abandoned, r.state, r.status,
       r.fence, r.owner, r.attempt, r.lease, r.retention, r.created_at, r.lease_until, r.completed_at, r.doubted_at,
       r.doubt_reason, r.expires_at, p.headers, p.body
FROM asked a
LEFT JOIN LATERAL (SELECT * FROM oncegate.records r WHERE r.record = a.record AND r.expires_at > a.now LIMIT 1) r ON TRUE
LEFT JOIN LATERAL (
    SELECT p.headers::text AS headers, p.body
    FROM oncegate.responses p
    WHERE r.state = 'completed' AND p.record = r.record AND p.fence = r.fence
    LIMIT 1
) p ON TRUE
