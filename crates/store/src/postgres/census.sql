-- census: how many live, in one snapshot. What is open is a straggler or younger than what a pass has looked at, so the
-- table is not walked for it. Completed ones are counted while that takes some milliseconds, and estimated beyond ($2
-- bytes of table), by what the server knows of its table.
WITH clock AS MATERIALIZED (SELECT statement_timestamp() + $1::interval AS now),
open AS MATERIALIZED (
    SELECT r.record, r.state, r.lease_until
    FROM oncegate.stragglers s
    CROSS JOIN clock c
    CROSS JOIN LATERAL (SELECT * FROM oncegate.records r WHERE r.record = s.record LIMIT 1) r
    WHERE s.is_open AND r.state <> 'completed' AND r.expires_at > c.now
    -- A record that became a straggler in an earlier life is in both.
    UNION
    SELECT r.record, r.state, r.lease_until
    FROM oncegate.sweep w
    CROSS JOIN clock c
    CROSS JOIN LATERAL (
        SELECT * FROM oncegate.records r WHERE r.created_at >= w.looked_born ORDER BY r.created_at LIMIT 200000
    ) r
    WHERE r.state <> 'completed' AND r.expires_at > c.now
),
counted AS (
    SELECT count(*) FILTER (WHERE o.state = 'in_flight' AND o.lease_until > c.now) AS in_flight,
           count(*) FILTER (WHERE o.state = 'in_flight' AND o.lease_until <= c.now) AS abandoned,
           count(*) FILTER (WHERE o.state = 'unknown') AS unknown,
           count(o.record) AS open
    FROM clock c
    LEFT JOIN open o ON TRUE
)
SELECT in_flight, abandoned, unknown,
       CASE
           WHEN pg_relation_size('oncegate.records') <= $2::bigint THEN
               (SELECT count(*)
                FROM oncegate.records r
                WHERE r.state = 'completed' AND r.expires_at > statement_timestamp() + $1::interval)
           ELSE
               (SELECT GREATEST(COALESCE(NULLIF(pg_stat_get_live_tuples(c.oid), 0), c.reltuples::bigint) - n.open, 0)
                FROM pg_catalog.pg_class c
                WHERE c.oid = 'oncegate.records'::regclass)
       END AS completed,
       pg_total_relation_size('oncegate.records') + pg_total_relation_size('oncegate.responses') AS bytes
FROM counted n
