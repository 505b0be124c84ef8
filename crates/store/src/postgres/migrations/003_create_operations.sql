-- What operators and jobs call, what people look at, and who may.

-- === what operators and jobs call ===

-- purge: deletes a record on an operator's word and notes who and why, in one statement. A live lease stays.
-- Not granted to applications.
CREATE FUNCTION oncegate.purge(record uuid, fence bigint, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = oncegate, pg_temp AS $$
#variable_conflict use_column
BEGIN
    WITH gone AS (
        DELETE FROM records AS r
        WHERE r.record = purge.record AND r.fence = purge.fence AND r.expires_at > clock_timestamp()
          AND (r.lease_until IS NULL OR r.lease_until <= clock_timestamp())
        RETURNING r.record, r.fence, r.state, r.operation)
    INSERT INTO audit (at, verb, record, operation, fence, state, operator, reason, forced)
    SELECT clock_timestamp(), CASE gone.state WHEN 'completed' THEN 'purge' ELSE 'release' END, gone.record,
           gone.operation, gone.fence, gone.state, session_user, purge.reason, false
    FROM gone;
    RETURN FOUND;
END
$$;

-- Where the last pass of `reap` stopped: a place in the order of birth.
CREATE TABLE oncegate.sweep (
    one    boolean     NOT NULL PRIMARY KEY DEFAULT true,
    born   timestamptz NOT NULL,
    record uuid        NOT NULL,

    CONSTRAINT one_row CHECK (one)
);
INSERT INTO oncegate.sweep (born, record) VALUES ('-infinity', '00000000-0000-0000-0000-000000000000');

-- Looks at `rows` records from a place on, in the order of birth; deletes what has expired and makes unknown what
-- was abandoned and may not be taken over. A row that another transaction holds waits for the next pass.
CREATE FUNCTION oncegate.reap_from(INOUT born timestamptz, INOUT record uuid, rows integer, OUT reaped integer)
LANGUAGE plpgsql SET search_path = oncegate, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at   CONSTANT timestamptz := statement_timestamp();
    seen uuid[];
    more integer;
BEGIN
    SELECT array_agg(r.record ORDER BY r.created_at, r.record) INTO seen
    FROM (SELECT r.record, r.created_at
          FROM records AS r
          WHERE r.created_at >= reap_from.born AND (r.created_at, r.record) > (reap_from.born, reap_from.record)
          ORDER BY r.created_at, r.record
          LIMIT reap_from.rows) AS r;
    -- The end: the next pass begins with the oldest.
    SELECT r.created_at, r.record INTO born, record FROM records AS r WHERE r.record = seen[reap_from.rows];
    born := coalesce(born, '-infinity');
    record := coalesce(record, '00000000-0000-0000-0000-000000000000');

    DELETE FROM records AS r
    USING unnest(seen) AS s (record) CROSS JOIN LATERAL
        (SELECT f.record FROM records AS f
         WHERE f.record = s.record AND f.expires_at <= at
         FOR UPDATE SKIP LOCKED) AS due
    WHERE r.record = due.record AND r.expires_at <= at;
    GET DIAGNOSTICS reaped = ROW_COUNT;
    UPDATE records AS r
    SET state = 'unknown', doubted_at = at, doubt_reason = 'worker died', lease_until = NULL,
        expires_at = at + r.retention
    FROM unnest(seen) AS s (record) CROSS JOIN LATERAL
        (SELECT f.record FROM records AS f
         WHERE f.record = s.record AND f.state = 'in_flight' AND f.on_abandoned = 'unknown' AND f.lease_until <= at
           AND f.expires_at > at
         FOR UPDATE SKIP LOCKED) AS due
    WHERE r.record = due.record AND r.state = 'in_flight' AND r.lease_until <= at AND r.expires_at > at;
    GET DIAGNOSTICS more = ROW_COUNT;
    reaped := reaped + more;
END
$$;

-- reap: one bounded batch; of many instances one reaps, and the others are told 0. Looks at the oldest records,
-- since those have usually expired, and goes on from where the last pass stopped, so that it comes to all.
CREATE FUNCTION oncegate.reap(rows integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = oncegate, pg_temp AS $$
#variable_conflict use_column
DECLARE
    place  sweep;
    oldest integer;
    onward RECORD;
BEGIN
    IF rows IS NULL OR rows NOT BETWEEN 1 AND 10000 THEN
        RAISE EXCEPTION 'a batch of % rows is out of range: 1 to 10000 are allowed', rows USING ERRCODE = '22023';
    END IF;
    SELECT * INTO place FROM sweep FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT f.reaped INTO oldest FROM reap_from('-infinity', '00000000-0000-0000-0000-000000000000', reap.rows) AS f;
    SELECT * INTO onward FROM reap_from(place.born, place.record, reap.rows);
    UPDATE sweep SET born = onward.born, record = onward.record;
    RETURN oldest + onward.reaped;
END
$$;

-- === what people look at ===

-- The lease ended and nothing was completed: workers die mid-way. Any row is worth a look.
CREATE VIEW oncegate.abandoned AS
SELECT r.record, r.scope, r.key, r.operation, r.fence, r.attempt, r.backend, r.on_abandoned, r.created_at,
       r.lease_until, statement_timestamp() - r.lease_until AS since, r.expires_at
FROM oncegate.records AS r
WHERE r.state = 'in_flight' AND r.lease_until <= statement_timestamp() AND r.expires_at > statement_timestamp();

-- The same request of the same caller under two keys within ten minutes: a client that makes a new key for each
-- repeat, and is guarded against nothing.
CREATE VIEW oncegate.suspected AS
SELECT p.scope, p.operation, p.earlier_record, p.earlier_key, p.record, p.key, p.created_at, p.apart
FROM (SELECT r.scope, r.operation, r.record, r.key, r.created_at,
             lag(r.record) OVER earlier AS earlier_record, lag(r.key) OVER earlier AS earlier_key,
             r.created_at - lag(r.created_at) OVER earlier AS apart
      FROM oncegate.records AS r
      WHERE r.expires_at > statement_timestamp()
      WINDOW earlier AS (PARTITION BY r.scope, r.fingerprint ORDER BY r.created_at, r.record)) AS p
WHERE p.apart <= interval '10 min';

-- === rights ===

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA oncegate FROM PUBLIC;

-- Roles belong to the server, not to this database: it may be there already, and making it may be forbidden.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'oncegate_app') THEN
        CREATE ROLE oncegate_app NOLOGIN;
    END IF;
EXCEPTION
    WHEN insufficient_privilege THEN
        RAISE WARNING 'role oncegate_app could not be made: grant to your own role what docs/sql.md lists';
    WHEN duplicate_object OR unique_violation THEN
        NULL; -- Made at the same moment, from another database.
END
$$;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'oncegate_app') THEN
        GRANT USAGE ON SCHEMA oncegate TO oncegate_app;
        GRANT EXECUTE ON FUNCTION
            oncegate.claim(text, text, bytea, interval, interval, text, text, uuid),
            oncegate.enter(text, text, bytea, interval, interval, text, text, uuid),
            oncegate.extend(uuid, bigint, interval),
            oncegate.complete(uuid, bigint, integer, jsonb, bytea, interval),
            oncegate.release(uuid, bigint),
            oncegate.doubt(uuid, bigint, text),
            oncegate.reap(integer),
            oncegate.record_id(text, text),
            oncegate.lock_id(uuid)
        TO oncegate_app;
        GRANT SELECT ON oncegate.abandoned, oncegate.suspected TO oncegate_app;
        GRANT SELECT (record, scope, key, operation, state, status, fence, attempt, backend, created_at, lease_until,
                      completed_at, expires_at) ON oncegate.records TO oncegate_app;
    END IF;
END
$$;
