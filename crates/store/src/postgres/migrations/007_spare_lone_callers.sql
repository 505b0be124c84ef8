-- What a claim and its completion cost the server when they come alone, and not in a batch.
--
-- Three things took most of it. A statement that writes rows first reads the text of every CHECK constraint of its table
-- anew: seventeen constraints were two fifths of the work, and the text of a function is read once per session. Each
-- expression of a function is made ready once per transaction, and each function that is called costs as much as a small
-- statement: so a new key is one statement now, and what only refuses is called when there is something to refuse.

-- === the invariants of a row ===

-- Raises with the name of the invariant that a row breaks. As in a constraint, what is neither true nor false holds.
CREATE FUNCTION oncegate.is_sound(r oncegate.records) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    broken CONSTANT text := CASE
        WHEN NOT octet_length(r.scope) <= 1024                          THEN 'scope_has_a_limit'
        WHEN NOT octet_length(r.key) BETWEEN 1 AND 255                  THEN 'key_has_a_length'
        WHEN NOT octet_length(r.fingerprint) BETWEEN 1 AND 64           THEN 'fingerprint_has_a_length'
        WHEN NOT r.spelling IN ('bare', 'quoted')                       THEN 'spelling_is_known'
        WHEN NOT r.backend IN ('plain', 'idempotent', 'transactional')  THEN 'backend_is_known'
        WHEN NOT r.on_abandoned IN ('takeover', 'unknown')              THEN 'on_abandoned_is_known'
        WHEN NOT r.state IN ('in_flight', 'completed', 'unknown')       THEN 'state_is_known'
        WHEN NOT r.fence > 0                                            THEN 'fence_is_positive'
        WHEN NOT r.attempt > 0                                          THEN 'attempt_counts'
        WHEN (r.state = 'in_flight') <> (r.lease_until IS NOT NULL)     THEN 'in_flight_has_lease'
        WHEN (r.state = 'completed') <> (r.completed_at IS NOT NULL)    THEN 'completed_has_time'
        WHEN (r.state = 'completed') <> (r.status IS NOT NULL)          THEN 'completed_has_status'
        WHEN NOT r.status BETWEEN 100 AND 999                           THEN 'status_is_http'
        WHEN (r.state = 'unknown') <> (r.doubted_at IS NOT NULL)        THEN 'unknown_has_time'
        WHEN (r.state = 'unknown') <> (r.doubt_reason IS NOT NULL)      THEN 'unknown_has_reason'
        WHEN NOT r.lease_until <= r.expires_at                          THEN 'record_outlives_lease'
        WHEN NOT r.expires_at > coalesce(r.completed_at, r.doubted_at)  THEN 'every_state_lives'
    END;
BEGIN
    IF broken IS NULL THEN
        RETURN true;
    END IF;
    RAISE EXCEPTION 'record % breaks the invariant %', r.record, broken
        USING ERRCODE = 'check_violation', CONSTRAINT = broken, SCHEMA = 'oncegate', TABLE = 'records';
END
$$;

-- NOT VALID: the rows that stand here were held by the constraints that go, so none has to be read now.
ALTER TABLE oncegate.records
    DROP CONSTRAINT scope_has_a_limit,
    DROP CONSTRAINT key_has_a_length,
    DROP CONSTRAINT fingerprint_has_a_length,
    DROP CONSTRAINT spelling_is_known,
    DROP CONSTRAINT backend_is_known,
    DROP CONSTRAINT on_abandoned_is_known,
    DROP CONSTRAINT state_is_known,
    DROP CONSTRAINT fence_is_positive,
    DROP CONSTRAINT attempt_counts,
    DROP CONSTRAINT in_flight_has_lease,
    DROP CONSTRAINT completed_has_time,
    DROP CONSTRAINT completed_has_status,
    DROP CONSTRAINT status_is_http,
    DROP CONSTRAINT unknown_has_time,
    DROP CONSTRAINT unknown_has_reason,
    DROP CONSTRAINT record_outlives_lease,
    DROP CONSTRAINT every_state_lives,
    ADD CONSTRAINT record_is_sound CHECK (oncegate.is_sound(records)) NOT VALID;

-- === what applications call ===

-- Claims and enters. A new key is one statement, which looks before it takes the lock of the record, so that a repeat
-- still locks nothing and writes nothing. Whatever this statement does not write (a repeat, a record that has expired or
-- was abandoned, a race, an argument out of range) is judged by the slower function of the same name.
CREATE FUNCTION oncegate.acquire(scope text, key text, fingerprint bytea, lease interval, retention interval,
                                 operation text, on_abandoned text, owner uuid)
RETURNS oncegate.answer
LANGUAGE plpgsql SET search_path = oncegate, pg_temp AS $$
DECLARE
    given answer;
BEGIN
    -- As `request` has it, which says what is wrong.
    IF octet_length(scope) <= 1024 AND octet_length(key) BETWEEN 1 AND 255 AND key !~ '[^!-~]'
       AND length(fingerprint) BETWEEN 1 AND 64 AND on_abandoned IN ('takeover', 'unknown')
       AND lease IS NOT NULL AND retention IS NOT NULL THEN
        INSERT INTO records AS r (record, fence, created_at, expires_at, lease_until, attempt, lease, retention, owner,
                                  state, backend, on_abandoned, spelling, fingerprint, scope, key, operation)
        SELECT n.record, nextval('fences'), n.at, n.at + n.retention, n.at + n.lease, 1, n.lease, n.retention,
               acquire.owner, 'in_flight', 'transactional', acquire.on_abandoned, 'bare', acquire.fingerprint,
               acquire.scope, acquire.key, coalesce(left(acquire.operation, 512), '')
        FROM (SELECT record_id(acquire.scope, acquire.key) AS record, clock_timestamp() AS at,
                     exact(acquire.lease) AS lease, exact(acquire.retention) AS retention
              OFFSET 0) AS n
        WHERE CASE WHEN (SELECT true FROM records AS p WHERE p.record = n.record) THEN false
                   ELSE pg_try_advisory_xact_lock(lock_id(n.record)) END
        ON CONFLICT (record) DO NOTHING
        RETURNING 'acquired', r.record, r.fence, 1 INTO given.outcome, given.record, given.fence, given.attempt;
        IF FOUND THEN
            RETURN given;
        END IF;
    END IF;
    RETURN acquire(request(scope, key, fingerprint, lease, retention, operation, on_abandoned, owner));
END
$$;

CREATE OR REPLACE FUNCTION oncegate.claim(
    scope text, key text, fingerprint bytea, lease interval DEFAULT '30 s', retention interval DEFAULT '24 h',
    operation text DEFAULT '', on_abandoned text DEFAULT 'takeover', owner uuid DEFAULT NULL)
RETURNS TABLE (outcome text, record uuid, fence bigint, attempt integer, status integer, headers jsonb, body bytea,
               completed_at timestamptz, expires_in interval, retry_after interval)
LANGUAGE plpgsql SECURITY DEFINER ROWS 1 SET search_path = oncegate, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' OR current_setting('transaction_read_only') <> 'off'
       OR lease < interval '100 ms' OR lease > interval '1 h' OR lease > retention
       OR retention > interval '400 days' THEN
        PERFORM check_transaction();
        PERFORM check_lengths(lease, retention);
    END IF;
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RAISE EXCEPTION 'a claim must commit before anything else is written, and this transaction has written'
            USING ERRCODE = 'OG003', HINT = 'Claim in a transaction of its own, or use oncegate.enter.';
    END IF;
    -- What is executed next must not outlive a claim that a crash of the server has forgotten.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN QUERY SELECT * FROM acquire(scope, key, fingerprint, lease, retention, operation, on_abandoned, owner);
END
$$;

CREATE OR REPLACE FUNCTION oncegate.enter(
    scope text, key text, fingerprint bytea, lease interval DEFAULT '30 s', retention interval DEFAULT '24 h',
    operation text DEFAULT '', on_abandoned text DEFAULT 'takeover', owner uuid DEFAULT NULL)
RETURNS TABLE (outcome text, record uuid, fence bigint, attempt integer, status integer, headers jsonb, body bytea,
               completed_at timestamptz, expires_in interval, retry_after interval)
LANGUAGE plpgsql SECURITY DEFINER ROWS 1 SET search_path = oncegate, pg_temp SET enable_seqscan = off AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' OR current_setting('transaction_read_only') <> 'off'
       OR retention <= interval '0' OR retention > interval '400 days' THEN
        PERFORM check_transaction();
        PERFORM check_lengths(NULL, retention);
    END IF;
    RETURN QUERY SELECT * FROM acquire(scope, key, fingerprint, interval '0', retention, operation, on_abandoned, NULL);
END
$$;

CREATE OR REPLACE FUNCTION oncegate.complete(
    record uuid, fence bigint, status integer, headers jsonb, body bytea, retention interval DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = oncegate, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    present records;
BEGIN
    IF complete.retention <= interval '0' OR complete.retention > interval '400 days' THEN
        PERFORM check_lengths(NULL, complete.retention);
    END IF;
    -- What a gateway could not read back would fail every repeat.
    IF complete.headers IS NULL OR NOT jsonb_path_match(complete.headers,
        'strict $.type() == "array" && !exists($[*] ? (@.type() != "array" || @.size() != 2
                                                       || exists(@[*] ? (@.type() != "string"))))')
        OR complete.headers::text ~ '[^\u0001-\u00ff]' THEN
        RAISE EXCEPTION 'headers are not a JSON array of [name, value] pairs of strings in Latin-1'
            USING ERRCODE = '22023';
    END IF;
    WITH completed AS (
        UPDATE records AS r
        SET state = 'completed', status = complete.status, completed_at = clock_timestamp(),
            retention = coalesce(exact(complete.retention), r.retention),
            expires_at = clock_timestamp() + coalesce(exact(complete.retention), r.retention),
            lease_until = NULL, doubted_at = NULL, doubt_reason = NULL, owner = NULL
        WHERE r.record = complete.record AND r.fence = complete.fence AND r.state IN ('in_flight', 'unknown')
          AND r.expires_at > clock_timestamp()
        RETURNING r.record, r.fence
    )
    INSERT INTO responses
    SELECT c.record, c.fence, complete.headers, complete.body FROM completed AS c;
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT * INTO present FROM records AS r WHERE r.record = complete.record AND r.expires_at > clock_timestamp();
    RAISE EXCEPTION 'record % was not completed under fence %: %', complete.record, complete.fence,
            CASE WHEN present.record IS NULL THEN 'it is absent'
                 WHEN present.fence <> complete.fence THEN format('its fence is %s by now', present.fence)
                 ELSE format('it is %s already', present.state) END
        USING ERRCODE = 'OG001',
              HINT = 'Roll back: the effect belongs to another attempt. A new claim tells what became of it.';
END
$$;

-- What a session plans first it keeps, and while there is one page of records the planner would read them all.
ALTER FUNCTION oncegate.extend SET enable_seqscan = off;
ALTER FUNCTION oncegate.release SET enable_seqscan = off;
ALTER FUNCTION oncegate.doubt SET enable_seqscan = off;

REVOKE ALL ON FUNCTION
    oncegate.is_sound(oncegate.records),
    oncegate.acquire(text, text, bytea, interval, interval, text, text, uuid)
FROM PUBLIC;
