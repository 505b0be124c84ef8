-- release: one guarded statement for a batch; locks and answers as extend_batch does. A first attempt leaves nothing;
-- a takeover leaves what was abandoned, under a new fence that nobody holds. The state matters: a completion keeps
-- the fence. When the first try's connection was lost (`is_again`), what stands there as this call would have left it
-- is its own work.
WITH asked AS MATERIALIZED (
    SELECT a.*, clock_timestamp() + $1::interval AS now
    FROM unnest($2::uuid[], $3::bigint[], $4::uuid[], $5::boolean[]) AS a (record, fence, owner, is_again)
    ORDER BY a.record
),
held AS MATERIALIZED (
    SELECT a.*, r.attempt
    FROM asked a
    CROSS JOIN LATERAL (
        SELECT r.attempt
        FROM oncegate.records r
        WHERE r.record = a.record AND r.fence = a.fence AND (a.owner IS NULL OR r.owner = a.owner)
          AND r.state = 'in_flight' AND r.expires_at > a.now
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
    SET fence = nextval('oncegate.fences'), owner = NULL, attempt = r.attempt - 1, lease = r.lease / 2,
        lease_until = h.now, expires_at = h.now + r.retention
    FROM held h
    WHERE r.record = h.record AND h.attempt > 1
    RETURNING r.record
)
SELECT record, 'done' AS verdict FROM deleted
UNION ALL
SELECT record, 'done' FROM given_back
UNION ALL
SELECT a.record,
       CASE
           WHEN NOT a.is_again THEN 'stale'
           WHEN r.record IS NULL THEN 'done'
           WHEN r.state = 'in_flight' AND r.owner IS NULL AND r.fence > a.fence AND r.lease_until <= a.now THEN 'done'
           ELSE 'stale'
       END
FROM asked a
LEFT JOIN LATERAL (
    SELECT r.record, r.fence, r.owner, r.state, r.lease_until
    FROM oncegate.records r
    WHERE r.record = a.record AND r.expires_at > a.now
    LIMIT 1
) r ON TRUE
WHERE (r.fence = a.fence AND (a.owner IS NULL OR r.owner = a.owner) AND r.state = 'in_flight') IS NOT TRUE
