-- The hot verbs of a store, each for a whole batch. They are for oncegate's own store, not for applications: a later
-- version may replace them.
--
-- They are functions because a function's plans are kept by the server's session: a statement that judges a claim
-- costs a millisecond to plan, and behind a pooler that lends sessions by the transaction nothing else can be kept.
--
-- Whatever the planner believes of a table that was never analysed, every statement finds its rows by their primary
-- key, and no time is spent on estimates from the values of long lists. Nothing of ours waits for a foreign
-- transaction; should it ever (an INSERT beside the try-lock, a migration), not for long.
--
-- Batches come in the order of their records, and each record once.

-- Nothing looks for a response without its fence. Fences grow, so a new response goes to the end of this index, as in
-- a log; by record each would go to a page of its own.
ALTER TABLE oncegate.responses DROP CONSTRAINT responses_pkey, ADD PRIMARY KEY (fence, record);

-- A completion keeps the fence: no need to look at what it left.
DROP TRIGGER response_follows_life ON oncegate.records;
CREATE TRIGGER response_follows_life AFTER UPDATE OF fence ON oncegate.records
FOR EACH ROW WHEN (OLD.state = 'completed' AND NEW.fence <> OLD.fence) EXECUTE FUNCTION oncegate.drop_response();

-- For the rest of its transaction: a batch is never cancelled half way to its commit, and never answered before that
-- is on disk; a stricter setting of the user's stays.
CREATE FUNCTION oncegate.commit_durably() RETURNS void
LANGUAGE plpgsql SET search_path = oncegate, pg_temp AS $$
BEGIN
    IF current_setting('statement_timeout') <> '0' THEN
        PERFORM set_config('statement_timeout', '0', TRUE);
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', TRUE);
    END IF;
END
$$;

-- claim: judges and writes, claims of absent records and takeovers alike; `at` moves the clock, for tests.
--
-- Two statements restate `decide`. They are atomic by three things. What is answered without writing is what a
-- snapshot shows. What is written is written behind a try-lock on 64 bits of the record, kept until the commit, so
-- that no two claims of one record are ever at work together; nothing waits for it. And a row is only changed as
-- it was judged: `held` locks it under the fence, the state and the times that were seen, or leaves it out.
--
-- Most claims are of absent records: the first statement inserts those. The second has a snapshot of its own, and so
-- judges also what another claim inserted meanwhile. To look for a record before it is inserted costs a fifth of a
-- claim, and to insert in vain costs a fence and a commit to be synced: a batch whose first record is there has
-- repeats, and looks; so a repeat that comes alone writes nothing at all.
--
-- A record that is missing in the answer, or there as `raced` alone, is asked again: another claim was at work, and
-- what it left is in neither snapshot.
CREATE FUNCTION oncegate.claim_batch(
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
    inserted bigint;
BEGIN
    PERFORM oncegate.commit_durably();
    repeats := EXISTS (SELECT FROM oncegate.records r WHERE r.record = records[1]);
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
                   WHEN r.record IS NULL THEN 'absent'
                   -- By the first statement; its row is in the answer.
                   WHEN r.writer = pg_current_xact_id_if_assigned()::xid THEN 'inserted'
                   WHEN r.scope <> a.scope OR r.key <> a.key THEN 'collision'
                   WHEN r.expires_at <= a.now THEN 'expired'
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
    WHERE j.verdict IN ('collision', 'mismatch', 'rules_changed', 'completed', 'unknown', 'recognised', 'in_flight')
    UNION ALL
    SELECT record, 'raced', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM gated
    UNION ALL
    SELECT record, verdict, fence, attempt, spelling, lease, created_at, doubted_at, NULL, NULL, doubt_reason, NULL,
           NULL, NULL, NULL, NULL
    FROM changed;
END
$$;

-- complete: the guarded transition and the response. `held` locks each row that may be left, in the order of the
-- records, and passes over one that a foreign transaction has locked: such a record is missing in the answer and is
-- asked again. What is stale is judged by a snapshot, so a row that was only passed over is never called stale.
--
-- What the same owner completed before, under the same fence, is this call's own earlier success: `done`, and
-- nothing is written.
CREATE FUNCTION oncegate.complete_batch(
    ahead interval, records uuid[], fences bigint[], owners uuid[], statuses integer[], all_headers text[],
    bodies bytea[]
) RETURNS TABLE (record uuid, verdict text)
LANGUAGE plpgsql SET search_path = oncegate, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET plan_cache_mode = force_generic_plan SET lock_timeout = '200ms' AS $$
#variable_conflict use_column
DECLARE
    at        timestamptz := clock_timestamp() + ahead;
    completed bigint;
BEGIN
    PERFORM oncegate.commit_durably();
    RETURN QUERY
    WITH changed AS (
        UPDATE oncegate.records r
        SET state = 'completed', status = h.status, completed_at = at, expires_at = at + r.retention,
            lease_until = NULL, doubted_at = NULL, doubt_reason = NULL
        FROM (
            SELECT a.record, a.status, a.headers, a.body
            FROM unnest(records, fences, owners, statuses, all_headers, bodies)
                 AS a (record, fence, owner, status, headers, body)
            CROSS JOIN LATERAL (
                SELECT 1
                FROM oncegate.records r
                WHERE r.record = a.record AND r.fence = a.fence AND (a.owner IS NULL OR r.owner = a.owner)
                  AND r.state IN ('in_flight', 'unknown') AND r.expires_at > at
                FOR UPDATE SKIP LOCKED
            ) r
        ) h
        WHERE r.record = h.record
        RETURNING r.record, r.fence, h.headers, h.body
    )
    INSERT INTO oncegate.responses AS p (record, fence, headers, body)
    SELECT c.record, c.fence, c.headers::jsonb, c.body
    FROM changed c
    RETURNING p.record, 'done';
    GET DIAGNOSTICS completed = ROW_COUNT;
    IF completed = cardinality(records) THEN
        RETURN;
    END IF;

    -- Of those that were completed just now the answer has two rows, and they agree.
    RETURN QUERY
    SELECT a.record, CASE WHEN r.state = 'completed' AND (r.is_owner OR r.is_ours) THEN 'done' ELSE 'stale' END
    FROM unnest(records, fences, owners) AS a (record, fence, owner)
    LEFT JOIN LATERAL (
        SELECT r.state, r.owner = a.owner AS is_owner, r.xmin = pg_current_xact_id_if_assigned()::xid AS is_ours
        FROM oncegate.records r
        WHERE r.record = a.record AND r.fence = a.fence AND (a.owner IS NULL OR r.owner = a.owner)
          AND r.expires_at > at
        LIMIT 1
    ) r ON TRUE
    WHERE r.state IS NULL OR r.state NOT IN ('in_flight', 'unknown');
END
$$;

-- extend: locks and answers as complete does. A lease that ended may still be extended while nobody took over.
CREATE FUNCTION oncegate.extend_batch(
    ahead interval, records uuid[], fences bigint[], owners uuid[], lengths interval[]
) RETURNS TABLE (record uuid, verdict text)
LANGUAGE plpgsql SET search_path = oncegate, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET plan_cache_mode = force_generic_plan SET lock_timeout = '200ms' AS $$
#variable_conflict use_column
DECLARE
    at       timestamptz := clock_timestamp() + ahead;
    extended bigint;
BEGIN
    PERFORM oncegate.commit_durably();
    RETURN QUERY
    UPDATE oncegate.records r
    SET lease_until = at + h.length, expires_at = GREATEST(at + r.retention, at + h.length)
    FROM (
        SELECT a.record, a.length
        FROM unnest(records, fences, owners, lengths) AS a (record, fence, owner, length)
        CROSS JOIN LATERAL (
            SELECT 1
            FROM oncegate.records r
            WHERE r.record = a.record AND r.fence = a.fence AND (a.owner IS NULL OR r.owner = a.owner)
              AND r.state = 'in_flight' AND r.expires_at > at
            FOR UPDATE SKIP LOCKED
        ) r
    ) h
    WHERE r.record = h.record
    RETURNING r.record, 'done';
    GET DIAGNOSTICS extended = ROW_COUNT;
    IF extended = cardinality(records) THEN
        RETURN;
    END IF;

    RETURN QUERY
    SELECT a.record, 'stale'
    FROM unnest(records, fences, owners) AS a (record, fence, owner)
    WHERE NOT EXISTS (
        SELECT
        FROM oncegate.records r
        WHERE r.record = a.record AND r.fence = a.fence AND (a.owner IS NULL OR r.owner = a.owner)
          AND r.state = 'in_flight' AND r.expires_at > at
    );
END
$$;

-- Whoever runs a store owns the tables or was granted them; nobody else has a use for these.
REVOKE ALL ON FUNCTION
    oncegate.commit_durably(),
    oncegate.claim_batch(interval, uuid[], bigint[], text[], text[], text[], text[], bytea[], text[], text[],
                         integer[], uuid[], interval[], interval[]),
    oncegate.complete_batch(interval, uuid[], bigint[], uuid[], integer[], text[], bytea[]),
    oncegate.extend_batch(interval, uuid[], bigint[], uuid[], interval[])
FROM PUBLIC;
