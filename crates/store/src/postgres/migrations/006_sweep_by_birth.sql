-- Reaping without walking the table, and the numbers of records without counting them.
--
-- Records have one index beside the primary key, on the time of their birth, which never changes in a life: an index on
-- the end of a lease or a life would cost every claim and completion a write to it. So each pass goes by birth:
--
--   oldest ... expired_born ............................. looked_born ..... now
--      gone, or a straggler |  completed, or a straggler  |  not looked at
--
-- What is open (in flight, unknown) when a pass first looks at it, a second after its birth, becomes a *straggler*: a
-- row of a small table with the time at which it is worth another look. What was seen completed stays completed in this
-- life, so it is next looked at when the usual retention is over; one that lives longer becomes a straggler then, and
-- one that lives shorter does at once. What is missed (a commit that took longer than a second, a clock set back, a
-- restore) is found by a look that goes round through all records, slowly.

DROP FUNCTION oncegate.reap_from(timestamptz, uuid, integer);
DROP TABLE oncegate.sweep;

-- How far the looks have come: places in the order of birth. Whoever holds its lock is the one instance that reaps.
CREATE TABLE oncegate.sweep (
    one            boolean     NOT NULL PRIMARY KEY DEFAULT true,
    looked_born    timestamptz NOT NULL DEFAULT '-infinity', -- up to here, what is open is a straggler
    looked_record  uuid        NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    expired_born   timestamptz NOT NULL DEFAULT '-infinity', -- up to here, what is not gone is a straggler
    expired_record uuid        NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    round_born     timestamptz NOT NULL DEFAULT '-infinity', -- the look that goes round
    round_record   uuid        NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    horizon        interval    NOT NULL DEFAULT '24:00:00',  -- the usual retention

    CONSTRAINT one_row CHECK (one)
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
INSERT INTO oncegate.sweep DEFAULT VALUES;

-- Its rows are written by passes alone. An entry may be out of date, never missing: a pass looks at the record itself.
CREATE TABLE oncegate.stragglers (
    record  uuid        NOT NULL PRIMARY KEY,
    due     timestamptz NOT NULL,                  -- a lease or a life ends
    is_open boolean     NOT NULL                   -- when it was last looked at
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);
CREATE INDEX stragglers_by_due ON oncegate.stragglers (due);

-- As the records': what the reaper deletes is soon room for what comes.
ALTER TABLE oncegate.responses SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0,
                                    toast.autovacuum_vacuum_scale_factor = 0.05,
                                    toast.autovacuum_vacuum_cost_delay = 0);
ALTER TABLE oncegate.records SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- Each part of a pass has its own settings for the planner: whatever it believes of a table that was never analysed,
-- rows are found by the index on their birth, in its order, and by their primary key, never by sorting all there are.

-- What the parts of a pass have in common: places in the order of birth and what may be done.
CREATE TYPE oncegate.pass AS (
    at       timestamptz,                          -- the present
    rows     bigint,                               -- how many records may be deleted, and how many made unknown
    expired  bigint,                               -- deleted so far
    doubted  bigint,
    is_more  boolean                               -- another pass at once has work
);

-- === the first look ===

-- Looks at what was born since the last pass, but for the last second: claims that have not committed yet. Learns what
-- the usual retention is.
CREATE FUNCTION oncegate.look_at_young(INOUT pass oncegate.pass, INOUT place oncegate.sweep)
LANGUAGE plpgsql SET search_path = oncegate, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = on
SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    until CONSTANT timestamptz := pass.at - interval '1 s';
    many  CONSTANT bigint := 10 * pass.rows;
    seen  RECORD;
BEGIN
    WITH young AS MATERIALIZED (
        SELECT r.record, r.created_at, r.state, r.lease_until, r.expires_at, r.retention
        FROM records AS r
        WHERE r.created_at >= place.looked_born AND r.created_at <= until
          AND (r.created_at, r.record) > (place.looked_born, place.looked_record)
        ORDER BY r.created_at, r.record
        LIMIT many),
    kept AS (
        INSERT INTO stragglers AS s (record, due, is_open)
        SELECT y.record, coalesce(y.lease_until, y.expires_at), y.state <> 'completed'
        FROM young AS y
        WHERE y.state <> 'completed' OR y.retention < place.horizon
        ON CONFLICT (record) DO UPDATE
        SET due = least(s.due, excluded.due), is_open = s.is_open OR excluded.is_open)
    SELECT count(*) AS count, mode() WITHIN GROUP (ORDER BY y.retention) AS usual, max(y.created_at) AS born,
           (SELECT l.record FROM young AS l ORDER BY l.created_at DESC, l.record DESC LIMIT 1) AS record
    INTO seen
    FROM young AS y;
    IF seen.count > 0 THEN
        place.looked_born := seen.born;
        place.looked_record := seen.record;
    END IF;
    -- From few nothing is learnt.
    IF seen.count >= 100 THEN
        place.horizon := seen.usual;
    END IF;
    pass.is_more := pass.is_more OR seen.count >= many;
END
$$;

-- === stragglers ===

-- Looks at stragglers whose time has come; deletes what has expired and makes unknown what was abandoned and may not be
-- taken over. A row that another transaction holds is left to the next pass.
CREATE FUNCTION oncegate.look_at_stragglers(INOUT pass oncegate.pass, INOUT place oncegate.sweep)
LANGUAGE plpgsql SET search_path = oncegate, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = on
SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    at   CONSTANT timestamptz := pass.at;
    most CONSTANT bigint := pass.rows;
    many CONSTANT bigint := 10 * pass.rows;
    seen RECORD;
BEGIN
    WITH due AS MATERIALIZED (
        SELECT s.record FROM stragglers AS s WHERE s.due <= at ORDER BY s.due LIMIT many),
    judged AS MATERIALIZED (
        SELECT d.record, r.expires_at, r.lease_until, r.state,
               CASE
                   WHEN r.record IS NULL THEN 'gone'
                   WHEN r.expires_at <= at THEN 'expired'
                   WHEN r.state = 'in_flight' AND r.on_abandoned = 'unknown' AND r.lease_until <= at THEN 'abandoned'
                   -- The look at the old comes to it.
                   WHEN r.state = 'completed' AND r.retention >= place.horizon
                        AND (r.created_at, r.record) > (place.expired_born, place.expired_record) THEN 'gone'
                   ELSE 'waiting'
               END AS verdict
        FROM due AS d
        LEFT JOIN LATERAL (SELECT * FROM records AS f WHERE f.record = d.record LIMIT 1) AS r ON true),
    expired AS MATERIALIZED (
        SELECT f.record
        FROM (SELECT j.record FROM judged AS j WHERE j.verdict = 'expired' LIMIT most) AS j
        CROSS JOIN LATERAL (SELECT f.record FROM records AS f WHERE f.record = j.record AND f.expires_at <= at
                            FOR UPDATE SKIP LOCKED) AS f),
    deleted AS (
        DELETE FROM records AS r
        WHERE r.record = ANY (ARRAY(SELECT e.record FROM expired AS e)) AND r.expires_at <= at
        RETURNING r.record),
    abandoned AS MATERIALIZED (
        SELECT f.record
        FROM (SELECT j.record FROM judged AS j WHERE j.verdict = 'abandoned' LIMIT most) AS j
        CROSS JOIN LATERAL (SELECT f.record FROM records AS f
                            WHERE f.record = j.record AND f.state = 'in_flight' AND f.on_abandoned = 'unknown'
                              AND f.lease_until <= at AND f.expires_at > at
                            FOR UPDATE SKIP LOCKED) AS f),
    doubted AS (
        UPDATE records AS r
        SET state = 'unknown', doubted_at = at, doubt_reason = 'worker died', lease_until = NULL,
            expires_at = at + r.retention
        WHERE r.record = ANY (ARRAY(SELECT a.record FROM abandoned AS a)) AND r.state = 'in_flight'
          AND r.lease_until <= at AND r.expires_at > at
        RETURNING r.record, r.expires_at),
    forgotten AS (
        DELETE FROM stragglers AS s
        WHERE s.record = ANY (ARRAY(SELECT record FROM deleted
                                    UNION ALL
                                    SELECT record FROM judged WHERE verdict = 'gone'))),
    moved AS (
        -- All of them are there: an insert finds them by their key, whatever the planner believes.
        INSERT INTO stragglers AS s (record, due, is_open)
        SELECT d.record, d.expires_at, true
        FROM doubted AS d
        UNION ALL
        -- The lease is live, or nobody but a repeat may end it.
        SELECT j.record, CASE WHEN j.lease_until > at THEN j.lease_until ELSE j.expires_at END, j.state <> 'completed'
        FROM judged AS j
        WHERE j.verdict = 'waiting'
        ON CONFLICT (record) DO UPDATE SET due = excluded.due, is_open = excluded.is_open)
    SELECT (SELECT count(*) FROM due) AS count, (SELECT count(*) FROM deleted) AS expired,
           (SELECT count(*) FROM doubted) AS doubted
    INTO seen;
    pass.expired := pass.expired + seen.expired;
    pass.doubted := pass.doubted + seen.doubted;
    pass.is_more := pass.is_more OR seen.count >= many OR seen.expired >= most OR seen.doubted >= most;
END
$$;

-- === the look at the old ===

-- Looks at what is as old as the usual retention; deletes what has expired. Stops at what is completed, lives as long
-- as usual and expires within a minute, as it mostly does: its work took that long.
CREATE FUNCTION oncegate.look_at_old(INOUT pass oncegate.pass, INOUT place oncegate.sweep)
LANGUAGE plpgsql SET search_path = oncegate, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = on
SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    at    CONSTANT timestamptz := pass.at;
    until CONSTANT timestamptz := least(pass.at - place.horizon, place.looked_born);
    many  CONSTANT bigint := pass.rows - pass.expired;
    seen  RECORD;
BEGIN
    WITH aged AS MATERIALIZED (
        SELECT r.record, r.created_at, r.state, r.lease_until, r.expires_at, r.retention
        FROM records AS r
        WHERE r.created_at >= place.expired_born AND r.created_at <= until
          AND (r.created_at, r.record) > (place.expired_born, place.expired_record)
          AND (r.created_at, r.record) <= (place.looked_born, place.looked_record)
        ORDER BY r.created_at, r.record
        LIMIT many),
    stop AS MATERIALIZED (
        SELECT o.created_at, o.record
        FROM aged AS o
        WHERE o.state = 'completed' AND o.retention = place.horizon AND o.expires_at > at
          AND o.expires_at <= at + interval '1 min'
        ORDER BY o.created_at, o.record
        LIMIT 1),
    passed AS MATERIALIZED (
        SELECT o.*
        FROM aged AS o
        LEFT JOIN stop AS s ON true
        WHERE s.record IS NULL OR (o.created_at, o.record) < (s.created_at, s.record)),
    expired AS MATERIALIZED (
        SELECT f.record
        FROM passed AS p
        CROSS JOIN LATERAL (SELECT f.record FROM records AS f WHERE f.record = p.record AND f.expires_at <= at
                            FOR UPDATE SKIP LOCKED) AS f
        WHERE p.expires_at <= at),
    deleted AS (
        DELETE FROM records AS r
        WHERE r.record = ANY (ARRAY(SELECT e.record FROM expired AS e)) AND r.expires_at <= at
        RETURNING r.record),
    kept AS (
        INSERT INTO stragglers AS s (record, due, is_open)
        SELECT p.record, coalesce(p.lease_until, p.expires_at), p.state <> 'completed'
        FROM passed AS p
        WHERE NOT EXISTS (SELECT FROM deleted AS d WHERE d.record = p.record)
        ON CONFLICT (record) DO UPDATE
        SET due = least(s.due, excluded.due), is_open = s.is_open OR excluded.is_open)
    SELECT (SELECT count(*) FROM aged) AS count, (SELECT count(*) FROM deleted) AS expired, max(p.created_at) AS born,
           (SELECT l.record FROM passed AS l ORDER BY l.created_at DESC, l.record DESC LIMIT 1) AS record
    INTO seen
    FROM passed AS p;
    IF seen.record IS NOT NULL THEN
        place.expired_born := seen.born;
        place.expired_record := seen.record;
    END IF;
    pass.expired := pass.expired + seen.expired;
    -- Fewer than it might have been: it stopped, or it is through.
    pass.is_more := pass.is_more OR (seen.count >= many AND seen.record IS NOT NULL);
END
$$;

-- === the look that goes round ===

-- Finds what the others have missed.
CREATE FUNCTION oncegate.look_round(INOUT pass oncegate.pass, INOUT place oncegate.sweep)
LANGUAGE plpgsql SET search_path = oncegate, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = on
SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    at   CONSTANT timestamptz := pass.at;
    many CONSTANT bigint := greatest(pass.rows / 4, 1);
    seen RECORD;
BEGIN
    WITH next AS MATERIALIZED (
        SELECT r.record, r.created_at, r.state, r.lease_until, r.expires_at
        FROM records AS r
        WHERE r.created_at >= place.round_born AND r.created_at <= place.looked_born
          AND (r.created_at, r.record) > (place.round_born, place.round_record)
        ORDER BY r.created_at, r.record
        LIMIT many),
    kept AS (
        INSERT INTO stragglers AS s (record, due, is_open)
        SELECT o.record, coalesce(o.lease_until, o.expires_at), o.state <> 'completed'
        FROM next AS o
        WHERE o.state <> 'completed' OR o.expires_at <= at
           OR (o.created_at, o.record) <= (place.expired_born, place.expired_record)
        ON CONFLICT (record) DO NOTHING)
    SELECT count(*) AS count, max(o.created_at) AS born,
           (SELECT l.record FROM next AS l ORDER BY l.created_at DESC, l.record DESC LIMIT 1) AS record
    INTO seen
    FROM next AS o;
    IF seen.count < many THEN
        -- The end: it begins again with the oldest.
        place.round_born := '-infinity';
        place.round_record := '00000000-0000-0000-0000-000000000000';
    ELSE
        place.round_born := seen.born;
        place.round_record := seen.record;
    END IF;
END
$$;

-- === a pass ===

-- One bounded pass; of many instances one reaps, and the others are told that there is nothing. Deletes at most `rows`
-- records, makes at most as many unknown, and looks at a number of others that is bounded by `rows` too. `ahead` is how
-- far a test's clock is ahead of the server's. `is_more`: another pass at once has work.
CREATE FUNCTION oncegate.reap_pass(rows bigint, ahead interval, OUT expired bigint, OUT doubted bigint,
                                   OUT is_more boolean)
LANGUAGE plpgsql SET search_path = oncegate, pg_temp AS $$
DECLARE
    place sweep;
    stood sweep;
    after RECORD;
    pass  pass := ROW(statement_timestamp() + ahead, rows, 0, 0, false);
BEGIN
    IF rows > 0 THEN
        SELECT * INTO stood FROM sweep FOR UPDATE SKIP LOCKED;
    END IF;
    IF stood.one THEN
        place := stood;
        -- After a clock was set back, what is born now must not be taken for seen.
        IF place.looked_born > pass.at THEN
            place.looked_born := pass.at - interval '2 s';
        END IF;
        IF place.expired_born > place.looked_born THEN
            place.expired_born := place.looked_born;
        END IF;
        SELECT * INTO after FROM look_at_young(pass, place);
        pass := after.pass;
        place := after.place;
        SELECT * INTO after FROM look_at_stragglers(pass, place);
        pass := after.pass;
        place := after.place;
        SELECT * INTO after FROM look_at_old(pass, place);
        pass := after.pass;
        place := after.place;
        SELECT * INTO after FROM look_round(pass, place);
        pass := after.pass;
        place := after.place;
        -- Where nothing moved, nothing is written.
        IF place IS DISTINCT FROM stood THEN
            UPDATE sweep
            SET looked_born = place.looked_born, looked_record = place.looked_record,
                expired_born = place.expired_born, expired_record = place.expired_record,
                round_born = place.round_born, round_record = place.round_record, horizon = place.horizon;
        END IF;
    END IF;
    expired := pass.expired;
    doubted := pass.doubted;
    is_more := pass.is_more;
END
$$;

-- reap: one pass, for jobs; answers how many records it deleted or made unknown.
CREATE OR REPLACE FUNCTION oncegate.reap(rows integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = oncegate, pg_temp AS $$
BEGIN
    IF rows IS NULL OR rows NOT BETWEEN 1 AND 10000 THEN
        RAISE EXCEPTION 'a batch of % rows is out of range: 1 to 10000 are allowed', rows USING ERRCODE = '22023';
    END IF;
    RETURN (SELECT p.expired + p.doubted FROM reap_pass(reap.rows, interval '0') AS p);
END
$$;

-- === rights ===

REVOKE ALL ON oncegate.sweep, oncegate.stragglers FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA oncegate FROM PUBLIC;
