-- suspect: notes what others have found ($3...) and, if a minute has passed since anybody looked, what there is among the
-- latest records; answers what nobody had noted. $2: how far apart two keys are suspected.
--
-- A look walks the index on the birth of records, back over the window and the time that an execution may take, and no
-- further than 200,000 records. What is in flight is left to a later look, when it is known how it ended; what was refused
-- (4xx) had no effect that could double. The note itself, unique by its record, is what makes it one.
WITH clock AS MATERIALIZED (SELECT statement_timestamp() + $1::interval AS now),
free AS MATERIALIZED (
    SELECT l.one, c.now
    FROM oncegate.suspicion_look AS l, clock AS c
    WHERE l.looked_at <= c.now - interval '1 min' OR l.looked_at > c.now
    FOR UPDATE OF l SKIP LOCKED),
turn AS (
    UPDATE oncegate.suspicion_look AS l SET looked_at = f.now FROM free AS f WHERE l.one = f.one RETURNING f.now),
recent AS MATERIALIZED (
    SELECT r.record, r.scope, r.fingerprint, r.operation, r.created_at
    FROM turn AS t
    CROSS JOIN LATERAL (
        SELECT * FROM oncegate.records AS r
        WHERE r.created_at > t.now - $2::interval - interval '5 min'
        ORDER BY r.created_at DESC
        LIMIT 200000) AS r
    WHERE r.state <> 'in_flight' AND (r.status IS NULL OR r.status NOT BETWEEN 400 AND 499) AND r.expires_at > t.now),
paired AS (
    SELECT r.record, lag(r.record) OVER same AS earlier, r.operation, r.scope ~ '^(route=[^;]*)?$' AS is_anonymous,
           r.created_at, lag(r.created_at) OVER same AS earlier_at
    FROM recent AS r
    WINDOW same AS (PARTITION BY r.scope, r.fingerprint ORDER BY r.created_at, r.record)),
found AS (
    SELECT * FROM paired AS p WHERE p.created_at - p.earlier_at <= $2::interval
    UNION ALL
    SELECT * FROM unnest($3::uuid[], $4::uuid[], $5::text[], $6::boolean[], $7::timestamptz[], $8::timestamptz[])),
noted AS (
    INSERT INTO oncegate.suspicions (record, earlier, operation, is_anonymous, created_at, earlier_at)
    SELECT DISTINCT ON (f.record) f.record, f.earlier, f.operation, f.is_anonymous, f.created_at, f.earlier_at
    FROM found AS f
    WHERE NOT EXISTS (SELECT FROM oncegate.suspicions AS s WHERE s.record = f.record)
    ORDER BY f.record, f.earlier_at
    LIMIT $9::bigint
    ON CONFLICT ON CONSTRAINT record_is_noted_once DO NOTHING
    RETURNING record, earlier, operation, is_anonymous, created_at, earlier_at),
forgotten AS (
    DELETE FROM oncegate.suspicions AS s
    WHERE s.number <= (SELECT max(l.number) FROM oncegate.suspicions AS l) - $10::bigint)
SELECT record, earlier, operation, is_anonymous, created_at, earlier_at FROM noted ORDER BY created_at, record
