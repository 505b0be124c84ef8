-- list of what is not completed: as list.sql, but found as the census finds it, among stragglers and what is younger than
-- what a pass has looked at, however large the table is. Where no pass was for long that is a walk as well.
WITH clock AS MATERIALIZED (SELECT statement_timestamp() + $1::interval AS now),
open AS MATERIALIZED (
    SELECT s.record
    FROM oncegate.stragglers s
    WHERE s.is_open
    -- A record that became a straggler in an earlier life is in both.
    UNION
    SELECT y.record
    FROM oncegate.sweep w
    CROSS JOIN LATERAL (
        SELECT r.record FROM oncegate.records r WHERE r.created_at >= w.looked_born AND r.state <> 'completed'
    ) y
)
SELECT r.record, r.scope, r.key, r.operation, r.spelling, r.fingerprint, r.backend, r.on_abandoned, r.state, r.status, r.fence,
       r.owner, r.attempt, r.lease, r.retention, r.created_at, r.lease_until, r.completed_at, r.doubted_at, r.doubt_reason,
       r.expires_at, c.now
FROM open o
CROSS JOIN clock c
CROSS JOIN LATERAL (SELECT * FROM oncegate.records r WHERE r.record = o.record LIMIT 1) r
WHERE r.state <> 'completed' AND r.expires_at > c.now
  AND ($2::text IS NULL OR r.state = $2)
  AND (NOT $3::boolean OR r.lease_until <= c.now)
  AND ($4::text IS NULL OR r.scope = $4)
  AND ($5::text IS NULL OR strpos(r.scope, $5) > 0)
  AND ($6::text IS NULL OR r.key = $6)
  AND ($7::uuid IS NULL OR r.record BETWEEN $7 AND $8::uuid)
ORDER BY r.created_at, r.record
LIMIT $9::bigint
