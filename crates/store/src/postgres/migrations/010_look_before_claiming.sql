-- A claim waited for whoever was changing its record: its INSERT came to the row that is there, unless it was the first of
-- its batch. Now a batch with any repeat looks first.

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
    inserted bigint;
BEGIN
    PERFORM oncegate.commit_durably();
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
