-- The front may acknowledge claims and completions before they are here (docs/tiered.md). What it acknowledged and this
-- database does not have yet is the *outbox*; the gateways drain it. This file has what must hold meanwhile.

-- === who says that a key is new ===

-- `mode` is what holds: in `authoritative` whoever claims a key that is absent here inserts it; in `outbox` the front
-- takes it, after a look here. `durability` is what the gateway that was started last wants. Each switch counts `epoch`,
-- and each opening has a name of its own, the `sentinel`, which the front must hold as well: a front that lost its data has
-- lost it too. After a switch back no new key is claimed for `quiet`, by this clock: as long as it may take until what the
-- front had acknowledged is here; a gateway that holds some of it makes that longer. It is counted from when the switch is
-- committed, which may take its time: until then `switched_at` is infinity. And for `rest` no outbox is opened, which gets
-- longer when one had to be closed soon after it was opened. One gateway at a time tries to open one, each for a few seconds:
-- two that gave the front their sentinels at the same time would leave it with some of both.
ALTER TABLE oncegate.front
    ADD COLUMN durability  text        NOT NULL DEFAULT 'authoritative',
    ADD COLUMN mode        text        NOT NULL DEFAULT 'authoritative',
    ADD COLUMN epoch       bigint      NOT NULL DEFAULT 0,
    ADD COLUMN sentinel    uuid,
    ADD COLUMN switched_at timestamptz NOT NULL DEFAULT '-infinity',
    ADD COLUMN quiet       interval    NOT NULL DEFAULT '0',
    ADD COLUMN rest        interval    NOT NULL DEFAULT '0',
    ADD COLUMN turn_until  timestamptz NOT NULL DEFAULT '-infinity',
    ADD CONSTRAINT durability_is_known CHECK (durability IN ('authoritative', 'outbox')),
    ADD CONSTRAINT mode_is_known       CHECK (mode IN ('authoritative', 'outbox')),
    ADD CONSTRAINT outbox_has_sentinel CHECK ((mode = 'outbox') = (sentinel IS NOT NULL));

-- claim: judges and writes, claims of absent records and takeovers alike; `at` moves the clock, for tests.
--
-- Two statements restate `decide`. They are atomic by three things. What is answered without writing is what a
-- snapshot shows. What is written is written behind a try-lock on 64 bits of the record, kept until the commit, so
-- that no two claims of one record are ever at work together; nothing waits for it. And a row is only changed as
-- it was judged: `held` locks it under the fence, the state and the times that were seen, or leaves it out.
--
-- Most claims are of absent records: the first statement inserts those. The second has a snapshot of its own, and so
-- judges also what another claim inserted meanwhile. A batch that has a repeat looks for each record before it is inserted:
-- what is inserted in vain costs a fence and a commit to be synced, and it waits for whoever is changing the row that is
-- there, a backend that has completed it and not committed, or the reaper. Only a row that is merely locked is not waited
-- for. Whether there is a repeat, one walk of the index tells for the whole batch.
--
-- Whether a key is new may be another's to say: see `front`. Then nothing is inserted, no record begins a new life, and
-- the answer of such keys is `outbox` or `quiet`. The lock is shared by all claims and never waited for: whoever opens
-- the outbox has it alone, and so finds committed what every claim wrote that has seen it closed.
--
-- A record that is missing in the answer, or there as `raced` alone, is asked again: another claim was at work, and
-- what it left is in neither snapshot.
CREATE OR REPLACE FUNCTION oncegate.claim_batch(
    ahead interval, records uuid[], gates bigint[], scopes text[], keys text[], operations text[], spellings text[],
    fingerprints bytea[], backends text[], on_abandoneds text[], max_attempts integer[], owners uuid[],
    leases interval[], retentions interval[]
) RETURNS TABLE (
    record uuid, verdict text, fence bigint, attempt integer, spelling text, lease interval, created_at timestamptz,
    since timestamptz, until timestamptz, now timestamptz, note text, state text, status integer, fingerprint bytea,
    headers text, body bytea
)
LANGUAGE plpgsql SET search_path = oncegate, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET plan_cache_mode = force_generic_plan SET lock_timeout = '200ms' AS $$
#variable_conflict use_column
DECLARE
    at       timestamptz := clock_timestamp() + ahead;
    repeats  boolean;
    inserted bigint := 0;
    another  text;
BEGIN
    PERFORM oncegate.commit_durably();
    IF NOT pg_try_advisory_xact_lock_shared(8027507411065663352) THEN
        RETURN;
    END IF;
    SELECT CASE
               WHEN f.mode = 'outbox' THEN 'outbox'
               WHEN clock_timestamp() < f.switched_at + f.quiet THEN 'quiet'
           END
    INTO another
    FROM oncegate.front f
    WHERE f.one;
    IF another IS NULL THEN
        repeats := EXISTS (SELECT FROM oncegate.records r WHERE r.record = ANY (records));
        RETURN QUERY
        INSERT INTO oncegate.records AS r (record, scope, key, operation, spelling, fingerprint, backend, on_abandoned,
                                           state, fence, owner, attempt, lease, retention, created_at, lease_until,
                                           expires_at)
        SELECT a.record, a.scope, a.key, a.operation, a.spelling, a.fingerprint, a.backend, a.on_abandoned, 'in_flight',
               nextval('oncegate.fences'), a.owner, 1, a.lease, a.retention, at, at + a.lease, at + a.retention
        FROM unnest(records, gates, scopes, keys, operations, spellings, fingerprints, backends, on_abandoneds, owners,
                    leases, retentions)
             AS a (record, gate, scope, key, operation, spelling, fingerprint, backend, on_abandoned, owner, lease,
                   retention)
        -- CASE, so that no lock is taken for what is only read.
        WHERE CASE
                  WHEN repeats AND EXISTS (SELECT FROM oncegate.records r WHERE r.record = a.record) THEN FALSE
                  ELSE pg_try_advisory_xact_lock(a.gate)
              END
        ON CONFLICT (record) DO NOTHING
        RETURNING r.record, 'acquired', r.fence, 1, NULL, NULL::interval, r.created_at, NULL::timestamptz,
                  NULL::timestamptz, NULL::timestamptz, NULL, NULL, NULL::integer, NULL::bytea, NULL, NULL::bytea;
        GET DIAGNOSTICS inserted = ROW_COUNT;
        IF inserted = cardinality(records) THEN
            RETURN;
        END IF;
    END IF;

    RETURN QUERY
    WITH asked AS MATERIALIZED (
        SELECT a.*, at AS now
        FROM unnest(records, gates, scopes, keys, operations, spellings, fingerprints, backends, on_abandoneds,
                    max_attempts, owners, leases, retentions)
             AS a (record, gate, scope, key, operation, spelling, fingerprint, backend, on_abandoned, max_attempts,
                   owner, lease, retention)
    ),
    judged AS MATERIALIZED (
        SELECT a.*, r.operation AS was_operation, r.spelling AS was_spelling, r.fingerprint AS was_fingerprint,
               r.state AS was_state, r.status AS was_status, r.fence AS was_fence, r.attempt AS was_attempt,
               r.lease AS was_lease, r.created_at AS was_created_at, r.lease_until AS was_lease_until,
               r.completed_at AS was_completed_at, r.doubted_at AS was_doubted_at, r.doubt_reason AS was_doubt_reason,
               r.expires_at AS was_expires_at,
               CASE
                   WHEN r.record IS NULL THEN coalesce(another, 'absent')
                   -- By the first statement; its row is in the answer.
                   WHEN r.writer = pg_current_xact_id_if_assigned()::xid THEN 'inserted'
                   WHEN r.scope <> a.scope OR r.key <> a.key THEN 'collision'
                   WHEN r.expires_at <= a.now THEN coalesce(another, 'expired')
                   -- Fingerprints of 41 bytes begin with the nine that name their rules; others are opaque.
                   WHEN r.fingerprint <> a.fingerprint THEN
                       CASE
                           WHEN (octet_length(r.fingerprint) = 41) <> (octet_length(a.fingerprint) = 41)
                               THEN 'rules_changed'
                           WHEN octet_length(r.fingerprint) = 41
                                AND substr(r.fingerprint, 1, 9) <> substr(a.fingerprint, 1, 9) THEN 'rules_changed'
                           ELSE 'mismatch'
                       END
                   WHEN r.state = 'completed' THEN 'completed'
                   WHEN r.state = 'unknown' THEN 'unknown'
                   WHEN r.lease_until > a.now THEN
                       CASE WHEN r.owner = a.owner THEN 'recognised' ELSE 'in_flight' END
                   WHEN r.owner = a.owner THEN 'own_again'
                   WHEN r.on_abandoned = 'unknown' OR a.on_abandoned = 'unknown' THEN 'worker died'
                   WHEN r.attempt >= a.max_attempts THEN 'attempts exhausted'
                   ELSE 'takeover'
               END AS verdict
        FROM asked a
        LEFT JOIN LATERAL (
            SELECT r.*, r.xmin AS writer FROM oncegate.records r WHERE r.record = a.record LIMIT 1
        ) r ON TRUE
    ),
    gated AS MATERIALIZED (
        SELECT *, verdict IN ('worker died', 'attempts exhausted') AS is_doubted, verdict = 'expired' AS is_new_life
        FROM judged
        -- CASE, so that no lock is taken for what is only read.
        WHERE CASE
                  WHEN verdict IN ('expired', 'own_again', 'takeover', 'worker died', 'attempts exhausted')
                      THEN pg_try_advisory_xact_lock(gate)
                  ELSE FALSE
              END
    ),
    held AS MATERIALIZED (
        SELECT g.*,
               -- A takeover doubles the lease, up to Policy::LEASE_DOUBLED_MAX.
               CASE WHEN g.verdict = 'takeover'
                    THEN LEAST(GREATEST(LEAST(g.was_lease * 2, INTERVAL '10 minutes'), g.lease), g.retention)
                    ELSE g.lease
               END AS new_lease,
               CASE g.verdict WHEN 'expired' THEN 1 WHEN 'takeover' THEN g.was_attempt + 1 ELSE g.was_attempt END
                   AS new_attempt
        FROM gated g
        CROSS JOIN LATERAL (
            SELECT 1
            FROM oncegate.records r
            WHERE r.record = g.record AND r.fence = g.was_fence AND r.state = g.was_state
              AND r.expires_at = g.was_expires_at AND r.lease_until IS NOT DISTINCT FROM g.was_lease_until
            FOR UPDATE SKIP LOCKED
        ) r
    ),
    changed AS (
        UPDATE oncegate.records r
        SET operation = CASE WHEN h.is_new_life THEN h.operation ELSE r.operation END,
            spelling = CASE WHEN h.is_new_life THEN h.spelling ELSE r.spelling END,
            backend = CASE WHEN h.is_new_life THEN h.backend ELSE r.backend END,
            on_abandoned = CASE WHEN h.is_new_life THEN h.on_abandoned ELSE r.on_abandoned END,
            created_at = CASE WHEN h.is_new_life THEN h.now ELSE r.created_at END,
            fingerprint = CASE WHEN h.is_doubted THEN r.fingerprint ELSE h.fingerprint END,
            state = CASE WHEN h.is_doubted THEN 'unknown' ELSE 'in_flight' END,
            status = NULL,
            completed_at = NULL,
            fence = CASE WHEN h.is_doubted THEN r.fence ELSE nextval('oncegate.fences') END,
            owner = CASE WHEN h.is_doubted THEN r.owner ELSE h.owner END,
            attempt = CASE WHEN h.is_doubted THEN r.attempt ELSE h.new_attempt END,
            lease = CASE WHEN h.is_doubted THEN r.lease ELSE h.new_lease END,
            retention = CASE WHEN h.is_doubted THEN r.retention ELSE h.retention END,
            lease_until = CASE WHEN h.is_doubted THEN NULL ELSE h.now + h.new_lease END,
            doubted_at = CASE WHEN h.is_doubted THEN h.now END,
            doubt_reason = CASE WHEN h.is_doubted THEN h.verdict END,
            expires_at = h.now + CASE WHEN h.is_doubted THEN r.retention ELSE h.retention END
        FROM held h
        WHERE r.record = h.record
        RETURNING r.record, CASE WHEN h.is_doubted THEN 'unknown' ELSE 'acquired' END AS verdict, r.fence, r.attempt,
                  r.spelling, r.lease, r.created_at, r.doubted_at, r.doubt_reason
    )
    SELECT j.record, j.verdict, j.was_fence AS fence, j.was_attempt AS attempt, j.was_spelling AS spelling,
           NULL::interval AS lease, j.was_created_at AS created_at,
           CASE j.verdict WHEN 'completed' THEN j.was_completed_at WHEN 'unknown' THEN j.was_doubted_at END AS since,
           CASE j.verdict WHEN 'completed' THEN j.was_expires_at ELSE j.was_lease_until END AS until, j.now,
           CASE j.verdict WHEN 'mismatch' THEN j.was_operation WHEN 'unknown' THEN j.was_doubt_reason END AS note,
           j.was_state AS state, j.was_status AS status, j.was_fingerprint AS fingerprint, p.headers, p.body
    FROM judged j
    LEFT JOIN LATERAL (
        SELECT p.record, p.headers::text AS headers, p.body
        FROM oncegate.responses p
        WHERE j.verdict = 'completed' AND p.record = j.record AND p.fence = j.was_fence
        LIMIT 1
    ) p ON TRUE
    WHERE j.verdict IN ('collision', 'mismatch', 'rules_changed', 'completed', 'unknown', 'recognised', 'in_flight',
                        'outbox', 'quiet')
    UNION ALL
    SELECT record, 'raced', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM gated
    UNION ALL
    SELECT record, verdict, fence, attempt, spelling, lease, created_at, doubted_at, NULL, NULL, doubt_reason, NULL,
           NULL, NULL, NULL, NULL
    FROM changed;
END
$$;

-- draw: is this key known here? Where it is not and the outbox is open, it gets a fence for the claim that the front is
-- to take. A read: it writes nothing but the sequence. That is asked once for all keys of a batch, which share the fence: it
-- tells claims of one record apart, and of one record a batch has one. Each 32nd number is written to the disk, and that is
-- waited for.
--
-- The mode is read before the records. Whoever opened the outbox in between did so after all claims that had seen it
-- closed, and whoever closes it in between waits for longer than this answer is good for.
CREATE FUNCTION oncegate.draw_batch(ahead interval, records uuid[])
RETURNS TABLE (record uuid, verdict text, fence bigint, buried bigint, sentinel uuid, now timestamptz)
LANGUAGE plpgsql SET search_path = oncegate, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET plan_cache_mode = force_generic_plan SET lock_timeout = '200ms' AS $$
#variable_conflict use_column
DECLARE
    at      timestamptz := clock_timestamp() + ahead;
    present uuid;
BEGIN
    SELECT f.sentinel INTO present FROM oncegate.front f WHERE f.one;
    RETURN QUERY
    SELECT a.record,
           CASE WHEN present IS NULL THEN 'closed' WHEN r.record IS NULL THEN 'new' ELSE 'known' END,
           -- A query of its own, and of nothing in a row: it is run once, and only where a key is new.
           CASE WHEN present IS NOT NULL AND r.record IS NULL THEN (SELECT nextval('oncegate.fences')) END,
           g.fence, present, at
    FROM unnest(records) AS a (record)
    LEFT JOIN LATERAL (
        SELECT r.record FROM oncegate.records r WHERE r.record = a.record AND r.expires_at > at LIMIT 1
    ) r ON TRUE
    LEFT JOIN LATERAL (SELECT g.fence FROM oncegate.graves g WHERE g.record = a.record LIMIT 1) g ON TRUE;
END
$$;

-- === what comes from the outbox ===

-- A record that was deleted before its life ended, and under which fence: what the outbox still holds of it must not
-- bring it back. Only where an outbox was open in the time that a record lives.
CREATE TABLE oncegate.graves (
    record     uuid        NOT NULL PRIMARY KEY,
    fence      bigint      NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX graves_by_end ON oncegate.graves (expires_at);

CREATE FUNCTION oncegate.dig_grave() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = oncegate, pg_temp AS $$
BEGIN
    INSERT INTO graves AS g (record, fence, expires_at)
    SELECT OLD.record, OLD.fence, clock_timestamp() + OLD.retention
    FROM front f
    WHERE f.epoch > 0 AND (f.mode = 'outbox' OR clock_timestamp() < f.switched_at + OLD.retention)
    ON CONFLICT (record) DO UPDATE
    SET fence = GREATEST(g.fence, excluded.fence), expires_at = GREATEST(g.expires_at, excluded.expires_at);
    RETURN NULL;
END
$$;

CREATE TRIGGER grave_follows_record AFTER DELETE ON oncegate.records
FOR EACH ROW WHEN (OLD.expires_at > clock_timestamp()) EXECUTE FUNCTION oncegate.dig_grave();

-- What could not be applied, whole, for a person to look at. A row that is deleted is dealt with.
CREATE TABLE oncegate.poison (
    entry        bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    record       uuid        NOT NULL,
    fence        bigint      NOT NULL,
    state        text        NOT NULL,
    scope        text,                              -- with the key; NULL where only the completion was left
    key          text,
    operation    text,
    completed_at timestamptz,
    status       integer,
    headers      text,
    body         bytea,
    reason       text        NOT NULL,

    CONSTRAINT entry_is_set_aside_once UNIQUE (record, fence, state)
);

-- apply: what the front acknowledged, one state of one record in each row: a claim, or a completion, with the claim that it
-- belongs to where that may not be here yet (else `scopes` and the rest are NULL). The same end comes of any order and of any
-- number of times: the largest (fence, rank) wins, where in_flight ranks below completed, and what was deleted or has
-- expired stays so. All times are this clock's.
--
-- Locks as claim and complete do, and waits for nobody: what somebody else has locked is missing in the answer, and asked
-- again. The third statement sees what the first two wrote, and says of each row what became of it.
CREATE FUNCTION oncegate.apply_batch(
    ahead interval, records uuid[], gates bigint[], fences bigint[], owners uuid[], states text[],
    completed_ats timestamptz[], expires_ats timestamptz[], statuses integer[], all_headers text[], bodies bytea[],
    scopes text[], keys text[], operations text[], spellings text[], fingerprints bytea[], backends text[],
    on_abandoneds text[], leases interval[], retentions interval[], created_ats timestamptz[]
) RETURNS TABLE (record uuid, verdict text)
LANGUAGE plpgsql SET search_path = oncegate, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET plan_cache_mode = force_generic_plan SET lock_timeout = '200ms' AS $$
#variable_conflict use_column
DECLARE
    at       timestamptz := clock_timestamp() + ahead;
    inserted bigint;
BEGIN
    PERFORM oncegate.commit_durably();
    WITH fresh AS (
        INSERT INTO oncegate.records AS r (record, scope, key, operation, spelling, fingerprint, backend, on_abandoned,
                                           state, status, fence, owner, attempt, lease, retention, created_at,
                                           lease_until, completed_at, expires_at)
        SELECT a.record, a.scope, a.key, a.operation, a.spelling, a.fingerprint, a.backend, a.on_abandoned, a.state,
               a.status, a.fence, a.owner, 1, a.lease, a.retention, a.created_at,
               CASE a.state WHEN 'in_flight' THEN a.created_at + a.lease END, a.completed_at, a.expires_at
        FROM unnest(records, gates, fences, owners, states, completed_ats, expires_ats, statuses, scopes, keys, operations,
                    spellings, fingerprints, backends, on_abandoneds, leases, retentions, created_ats)
             AS a (record, gate, fence, owner, state, completed_at, expires_at, status, scope, key, operation, spelling,
                   fingerprint, backend, on_abandoned, lease, retention, created_at)
        -- CASE, so that no lock is taken in vain.
        WHERE CASE
                  WHEN a.scope IS NULL OR a.expires_at <= at THEN FALSE
                  WHEN EXISTS (SELECT FROM oncegate.records r WHERE r.record = a.record) THEN FALSE
                  WHEN EXISTS (SELECT FROM oncegate.graves g WHERE g.record = a.record AND g.fence >= a.fence) THEN FALSE
                  ELSE pg_try_advisory_xact_lock(a.gate)
              END
        ON CONFLICT (record) DO NOTHING
        RETURNING r.record, r.fence, r.state
    ),
    responded AS (
        INSERT INTO oncegate.responses (record, fence, headers, body)
        SELECT f.record, f.fence, a.headers::jsonb, a.body
        FROM fresh f
        JOIN unnest(records, all_headers, bodies) AS a (record, headers, body) ON a.record = f.record
        WHERE f.state = 'completed'
    )
    SELECT count(*) INTO inserted FROM fresh;
    IF inserted = cardinality(records) THEN
        RETURN QUERY SELECT a.record, 'done' FROM unnest(records) AS a (record);
        RETURN;
    END IF;

    WITH held AS MATERIALIZED (
        SELECT a.*, r.fence < a.fence AS is_new_life
        FROM unnest(records, fences, owners, states, completed_ats, expires_ats, statuses, all_headers, bodies, scopes,
                    keys, operations, spellings, fingerprints, backends, on_abandoneds, leases, retentions, created_ats)
             AS a (record, fence, owner, state, completed_at, expires_at, status, headers, body, scope, key, operation,
                   spelling, fingerprint, backend, on_abandoned, lease, retention, created_at)
        CROSS JOIN LATERAL (
            SELECT r.fence
            FROM oncegate.records r
            WHERE r.record = a.record AND a.expires_at > at
              AND CASE
                      -- It was new when it was drawn: what lived then is another's.
                      WHEN r.fence < a.fence THEN r.scope = a.scope AND r.key = a.key AND r.expires_at <= a.created_at
                      ELSE r.fence = a.fence AND a.state = 'completed' AND r.state IN ('in_flight', 'unknown')
                           AND r.owner IS NOT DISTINCT FROM a.owner AND r.expires_at > at
                  END
            FOR UPDATE SKIP LOCKED
        ) r
    ),
    changed AS (
        UPDATE oncegate.records r
        SET operation = CASE WHEN h.is_new_life THEN h.operation ELSE r.operation END,
            spelling = CASE WHEN h.is_new_life THEN h.spelling ELSE r.spelling END,
            fingerprint = CASE WHEN h.is_new_life THEN h.fingerprint ELSE r.fingerprint END,
            backend = CASE WHEN h.is_new_life THEN h.backend ELSE r.backend END,
            on_abandoned = CASE WHEN h.is_new_life THEN h.on_abandoned ELSE r.on_abandoned END,
            attempt = CASE WHEN h.is_new_life THEN 1 ELSE r.attempt END,
            lease = CASE WHEN h.is_new_life THEN h.lease ELSE r.lease END,
            retention = CASE WHEN h.is_new_life THEN h.retention ELSE r.retention END,
            created_at = CASE WHEN h.is_new_life THEN h.created_at ELSE r.created_at END,
            lease_until = CASE h.state WHEN 'in_flight' THEN h.created_at + h.lease END,
            fence = h.fence, owner = h.owner, state = h.state, status = h.status, completed_at = h.completed_at,
            expires_at = h.expires_at, doubted_at = NULL, doubt_reason = NULL
        FROM held h
        WHERE r.record = h.record
        RETURNING r.record, r.fence, r.state, h.headers, h.body
    )
    INSERT INTO oncegate.responses (record, fence, headers, body)
    SELECT c.record, c.fence, c.headers::jsonb, c.body
    FROM changed c
    WHERE c.state = 'completed';

    RETURN QUERY
    SELECT j.record, j.verdict
    FROM (
        SELECT a.record,
               CASE
                   WHEN r.record IS NULL THEN
                       CASE WHEN a.scope IS NULL OR a.expires_at <= at OR g.fence >= a.fence THEN 'stale' END
                   WHEN r.scope <> a.scope OR r.key <> a.key THEN 'collision'
                   WHEN r.fence > a.fence THEN 'stale'
                   WHEN r.fence < a.fence THEN
                       CASE WHEN a.scope IS NULL OR a.expires_at <= at OR r.expires_at > a.created_at THEN 'stale' END
                   WHEN a.state = 'in_flight' THEN 'done'
                   WHEN r.owner IS DISTINCT FROM a.owner THEN 'stale'
                   WHEN r.state = 'completed' THEN 'done'
                   WHEN a.expires_at <= at OR r.expires_at <= at THEN 'stale'
               END AS verdict
        FROM unnest(records, fences, owners, states, expires_ats, scopes, keys, created_ats)
             AS a (record, fence, owner, state, expires_at, scope, key, created_at)
        LEFT JOIN LATERAL (
            SELECT r.record, r.scope, r.key, r.fence, r.owner, r.state, r.expires_at
            FROM oncegate.records r
            WHERE r.record = a.record
            LIMIT 1
        ) r ON TRUE
        LEFT JOIN LATERAL (SELECT g.fence FROM oncegate.graves g WHERE g.record = a.record LIMIT 1) g ON TRUE
    ) j
    WHERE j.verdict IS NOT NULL;
END
$$;

-- === reaping ===

-- As before (006), and later where an outbox was ever open: what comes from it was born when its key was drawn, and may be
-- here as late as `quiet` says. What was looked at too early only the look that goes round would find.
CREATE OR REPLACE FUNCTION oncegate.look_at_young(INOUT pass oncegate.pass, INOUT place oncegate.sweep)
LANGUAGE plpgsql SET search_path = oncegate, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_incremental_sort = on
SET enable_hashjoin = off SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    late  CONSTANT interval := coalesce((SELECT f.quiet FROM front AS f WHERE f.epoch > 0), interval '0');
    until CONSTANT timestamptz := pass.at - interval '1 s' - late;
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

REVOKE ALL ON oncegate.graves, oncegate.poison FROM PUBLIC;
REVOKE ALL ON FUNCTION
    oncegate.draw_batch(interval, uuid[]),
    oncegate.dig_grave(),
    oncegate.apply_batch(interval, uuid[], bigint[], bigint[], uuid[], text[], timestamptz[], timestamptz[], integer[],
                         text[], bytea[], text[], text[], text[], text[], bytea[], text[], text[], interval[],
                         interval[], timestamptz[])
FROM PUBLIC;
