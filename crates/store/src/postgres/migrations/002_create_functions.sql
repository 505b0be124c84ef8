-- The SQL contract: the same protocol for whoever has a connection to this database, in any language.
--
-- `judge` restates decide() and `successor` what it writes (crates/core/src/claim.rs). Every function that an
-- application may call runs with its owner's rights and with a search_path of its own, so that the
-- application needs no right on a table and cannot put another table or operator in its way.
--
-- What is raised: OG001 the completion was not stored, roll back; OG002 wrong isolation level; OG003 a claim in
-- a transaction that has written; OG004 entered but not completed; OG005 two records with one digest; 22023 an
-- argument out of range; 25006 not the primary server; 40001 the record kept changing, ask again.

-- === names ===

-- docs/fingerprint.md defines the bytes.
CREATE FUNCTION oncegate.record_id(scope text, key text) RETURNS uuid
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN encode(substring(sha256(
    int4send(octet_length(convert_to(scope, 'UTF8'))) || convert_to(scope, 'UTF8') ||
    int4send(octet_length(convert_to(key, 'UTF8'))) || convert_to(key, 'UTF8')) FROM 1 FOR 16), 'hex')::uuid;

-- What excludes claims of one record: its first 64 bits. Two records with the same ones cost each other a
-- needless `in_flight`, never a wrong answer: what is replayed goes by scope and key.
CREATE FUNCTION oncegate.lock_id(record uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN ('x' || replace(left(record::text, 18), '-', ''))::bit(64)::bigint;

-- The same length in hours and less. A day or a month would be as long as the session's time zone has it.
CREATE FUNCTION oncegate.exact(length interval) RETURNS interval
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN make_interval(secs => extract(epoch FROM length)::double precision);

-- === the specification ===

CREATE TYPE oncegate.answer AS (
    outcome      text,
    record       uuid,
    fence        bigint,
    attempt      integer,
    status       integer,
    headers      jsonb,
    body         bytea,
    completed_at timestamptz,
    expires_in   interval,
    retry_after  interval
);

-- Judges a claim. The words with an outcome's name write nothing; `new`, `again` and `takeover` acquire, `died`
-- and `exhausted` make the record unknown. `present` is all NULL when there is no row.
--
-- A lease of no length is a record that this very transaction has entered: nobody else ever sees one.
CREATE FUNCTION oncegate.judge(present oncegate.records, wanted oncegate.records, at timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN (present).record IS NULL OR (present).expires_at <= at THEN 'new'
    WHEN (present).fingerprint <> (wanted).fingerprint THEN
        CASE
            WHEN (length((present).fingerprint) = 41) <> (length((wanted).fingerprint) = 41) THEN 'rules_changed'
            WHEN length((present).fingerprint) = 41
             AND substring((present).fingerprint FROM 1 FOR 9) <> substring((wanted).fingerprint FROM 1 FOR 9)
            THEN 'rules_changed'
            ELSE 'mismatch'
        END
    WHEN (present).state <> 'in_flight' THEN (present).state
    WHEN (present).lease = interval '0' THEN 'in_flight'
    WHEN at < (present).lease_until THEN
        CASE WHEN (present).owner = (wanted).owner THEN 'acquired' ELSE 'in_flight' END
    WHEN (present).owner = (wanted).owner THEN 'again'
    WHEN (present).on_abandoned = 'unknown' OR (wanted).on_abandoned = 'unknown' THEN 'died'
    WHEN (present).attempt >= 5 THEN 'exhausted'
    ELSE 'takeover'
END;

-- The row that a verdict writes. A takeover keeps what belongs to the first request, and doubles the lease.
CREATE FUNCTION oncegate.successor(present oncegate.records, wanted oncegate.records, verdict text, at timestamptz)
RETURNS oncegate.records
LANGUAGE plpgsql SET search_path = oncegate, pg_temp AS $$
DECLARE
    written records := wanted;
BEGIN
    IF verdict IN ('died', 'exhausted') THEN
        written := present;
        written.state := 'unknown';
        written.doubted_at := at;
        written.doubt_reason := CASE verdict WHEN 'died' THEN 'worker died' ELSE 'attempts exhausted' END;
        written.lease_until := NULL;
        written.expires_at := at + present.retention;
        RETURN written;
    END IF;
    written.attempt := 1;
    written.created_at := at;
    IF verdict IN ('again', 'takeover') THEN
        written.attempt := present.attempt;
        written.created_at := present.created_at;
        written.operation := present.operation;
        written.spelling := present.spelling;
        written.backend := present.backend;
        written.on_abandoned := present.on_abandoned;
    END IF;
    IF verdict = 'takeover' THEN
        written.attempt := present.attempt + 1;
        IF wanted.lease > interval '0' THEN
            written.lease := greatest(least(present.lease * 2, interval '10 min'), wanted.lease);
            written.lease := least(written.lease, wanted.retention);
        END IF;
    END IF;
    written.fence := nextval('fences');
    written.lease_until := at + written.lease;
    written.expires_at := at + written.retention;
    RETURN written;
END
$$;

-- === claiming ===

-- Writes `written` over `present`, if that still stands there: `done`, `changed` (look again) or `held`
-- (another transaction has the row and has not ended). Waits for nobody: the caller holds the lock of the
-- record, so that no other claim inserts it, and whoever writes under an older fence is skipped.
CREATE FUNCTION oncegate.write_claim(present oncegate.records, written oncegate.records) RETURNS text
LANGUAGE plpgsql SET search_path = oncegate, pg_temp AS $$
BEGIN
    IF present.record IS NULL THEN
        INSERT INTO records VALUES (written.*) ON CONFLICT (record) DO NOTHING;
        RETURN CASE WHEN FOUND THEN 'done' ELSE 'changed' END;
    END IF;
    UPDATE records AS r
    SET fence = written.fence, created_at = written.created_at, expires_at = written.expires_at,
        lease_until = written.lease_until, completed_at = written.completed_at, doubted_at = written.doubted_at,
        attempt = written.attempt, status = written.status, lease = written.lease, retention = written.retention,
        owner = written.owner, state = written.state, backend = written.backend,
        on_abandoned = written.on_abandoned, spelling = written.spelling, fingerprint = written.fingerprint,
        operation = written.operation, doubt_reason = written.doubt_reason
    FROM (SELECT f.record
          FROM records AS f
          WHERE f.record = present.record AND f.fence = present.fence AND f.state = present.state
            AND f.lease_until IS NOT DISTINCT FROM present.lease_until AND f.expires_at = present.expires_at
          FOR UPDATE SKIP LOCKED) AS free
    WHERE r.record = free.record AND r.fence = present.fence AND r.state = present.state
      AND r.lease_until IS NOT DISTINCT FROM present.lease_until;
    IF FOUND THEN
        RETURN 'done';
    END IF;
    PERFORM
    FROM records AS r
    WHERE r.record = present.record AND r.fence = present.fence AND r.state = present.state
      AND r.lease_until IS NOT DISTINCT FROM present.lease_until AND r.expires_at = present.expires_at;
    RETURN CASE WHEN FOUND THEN 'held' ELSE 'changed' END;
END
$$;

-- The answer of a verdict that writes nothing. NULL: the record went while its response was looked up.
CREATE FUNCTION oncegate.recall(present oncegate.records, verdict text, at timestamptz) RETURNS oncegate.answer
LANGUAGE plpgsql STABLE SET search_path = oncegate, pg_temp AS $$
DECLARE
    given answer;
BEGIN
    given.outcome := verdict;
    given.record := present.record;
    IF verdict = 'acquired' THEN
        given.fence := present.fence;
        given.attempt := present.attempt;
    ELSIF verdict = 'in_flight' THEN
        given.retry_after := greatest(present.lease_until - at, interval '0');
    ELSIF verdict = 'completed' THEN
        SELECT s.headers, s.body INTO given.headers, given.body
        FROM responses AS s
        WHERE s.record = present.record AND s.fence = present.fence;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        given.status := present.status;
        given.completed_at := present.completed_at;
        given.expires_in := present.expires_at - at;
    END IF;
    RETURN given;
END
$$;

-- Claims and enters. Reads first, and a record that is to stay as it is costs no more than that: a repeat
-- locks nothing and writes nothing. Only who may have to write takes the lock of the record, and whoever does
-- not get it is told `in_flight` at once. An insert that changed nothing proves nothing, so the record is then
-- read again, by a new statement and so with a new snapshot; after three rounds the caller is told to ask again.
CREATE FUNCTION oncegate.acquire(wanted oncegate.records) RETURNS oncegate.answer
LANGUAGE plpgsql SET search_path = oncegate, pg_temp AS $$
DECLARE
    present records;
    written records;
    given   answer;
    verdict text;
    done    text;
    at      timestamptz;
BEGIN
    FOR round IN 1..3 LOOP
        SELECT * INTO present FROM records AS r WHERE r.record = wanted.record;
        at := clock_timestamp();
        IF present.scope <> wanted.scope OR present.key <> wanted.key THEN
            RAISE EXCEPTION 'record % belongs to another key', wanted.record USING ERRCODE = 'OG005';
        END IF;
        verdict := judge(present, wanted, at);
        IF verdict IN ('completed', 'in_flight', 'mismatch', 'unknown', 'rules_changed', 'acquired') THEN
            given := recall(present, verdict, at);
            CONTINUE WHEN given.outcome IS NULL;
            RETURN given;
        END IF;
        given.record := wanted.record;
        done := 'held';
        IF pg_try_advisory_xact_lock(lock_id(wanted.record)) THEN
            written := successor(present, wanted, verdict, at);
            done := write_claim(present, written);
        END IF;
        CONTINUE WHEN done = 'changed';
        IF done = 'held' THEN
            given.outcome := 'in_flight';
            given.retry_after := interval '1 s';
        ELSIF written.state = 'unknown' THEN
            given.outcome := 'unknown';
        ELSE
            given.outcome := 'acquired';
            given.fence := written.fence;
            given.attempt := written.attempt;
        END IF;
        RETURN given;
    END LOOP;
    RAISE EXCEPTION 'record % kept changing', wanted.record USING ERRCODE = '40001', HINT = 'Ask again.';
END
$$;

-- The lengths that a lease and a retention may have; NULL is none.
CREATE FUNCTION oncegate.check_lengths(lease interval, retention interval) RETURNS void
LANGUAGE plpgsql SET search_path = oncegate, pg_temp AS $$
BEGIN
    IF lease < interval '100 ms' OR lease > interval '1 h' THEN
        RAISE EXCEPTION 'lease length % is out of range: 100 ms to 1 h are allowed', lease USING ERRCODE = '22023';
    END IF;
    IF retention <= interval '0' OR retention > interval '400 days' THEN
        RAISE EXCEPTION 'retention % is out of range: more than 0 and at most 400 days are allowed', retention
            USING ERRCODE = '22023';
    END IF;
    IF lease > retention THEN
        RAISE EXCEPTION 'lease length % is longer than retention %: the record must outlive its lease', lease, retention
            USING ERRCODE = '22023';
    END IF;
END
$$;

-- The row that a claim wants, still without fence and times. Refuses what a record cannot hold.
CREATE FUNCTION oncegate.request(scope text, key text, fingerprint bytea, lease interval, retention interval,
                                 operation text, on_abandoned text, owner uuid)
RETURNS oncegate.records
LANGUAGE plpgsql SET search_path = oncegate, pg_temp AS $$
DECLARE
    wanted records;
BEGIN
    IF scope IS NULL OR octet_length(scope) > 1024 THEN
        RAISE EXCEPTION 'the scope has % bytes: 0 to 1024 are allowed', octet_length(scope) USING ERRCODE = '22023';
    END IF;
    -- In two steps: a pattern that counts to 255 takes forty times as long.
    IF key IS NULL OR octet_length(key) NOT BETWEEN 1 AND 255 OR key ~ '[^!-~]' THEN
        RAISE EXCEPTION 'the key has % bytes: 1 to 255 visible ASCII characters are allowed', octet_length(key)
            USING ERRCODE = '22023';
    END IF;
    IF fingerprint IS NULL OR length(fingerprint) NOT BETWEEN 1 AND 64 THEN
        RAISE EXCEPTION 'fingerprint of % bytes: 1 to 64 bytes are allowed', length(fingerprint)
            USING ERRCODE = '22023';
    END IF;
    IF on_abandoned IS NULL OR on_abandoned NOT IN ('takeover', 'unknown') THEN
        RAISE EXCEPTION 'on_abandoned % is not known: takeover and unknown are', quote_nullable(on_abandoned)
            USING ERRCODE = '22023';
    END IF;
    IF lease IS NULL OR retention IS NULL THEN
        RAISE EXCEPTION 'lease and retention cannot be NULL' USING ERRCODE = '22023';
    END IF;
    wanted.record := record_id(scope, key);
    wanted.scope := scope;
    wanted.key := key;
    wanted.fingerprint := fingerprint;
    wanted.lease := exact(lease);
    wanted.retention := exact(retention);
    wanted.operation := coalesce(left(operation, 512), '');
    wanted.on_abandoned := on_abandoned;
    wanted.owner := owner;
    wanted.state := 'in_flight';
    wanted.backend := 'transactional';
    wanted.spelling := 'bare';
    RETURN wanted;
END
$$;

-- A snapshot that stands still would show a claim the record as it was when the transaction began; a standby
-- shows what the primary was. Neither may say that a key is new, or replay.
CREATE FUNCTION oncegate.check_transaction() RETURNS void
LANGUAGE plpgsql SET search_path = oncegate, pg_temp AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'a claim needs READ COMMITTED, and this transaction is %',
                upper(current_setting('transaction_isolation'))
            USING ERRCODE = 'OG002', HINT = 'Begin it with BEGIN ISOLATION LEVEL READ COMMITTED.';
    END IF;
    IF current_setting('transaction_read_only')::boolean THEN
        RAISE EXCEPTION 'a claim needs a transaction that may write, on the primary server' USING ERRCODE = '25006';
    END IF;
END
$$;

-- === what applications call ===

-- claim: a short transaction of its own, before anything is executed.
CREATE FUNCTION oncegate.claim(
    scope text, key text, fingerprint bytea, lease interval DEFAULT '30 s', retention interval DEFAULT '24 h',
    operation text DEFAULT '', on_abandoned text DEFAULT 'takeover', owner uuid DEFAULT NULL)
RETURNS TABLE (outcome text, record uuid, fence bigint, attempt integer, status integer, headers jsonb, body bytea,
               completed_at timestamptz, expires_in interval, retry_after interval)
LANGUAGE plpgsql SECURITY DEFINER ROWS 1 SET search_path = oncegate, pg_temp AS $$
BEGIN
    PERFORM check_transaction();
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RAISE EXCEPTION 'a claim must commit before anything else is written, and this transaction has written'
            USING ERRCODE = 'OG003', HINT = 'Claim in a transaction of its own, or use oncegate.enter.';
    END IF;
    PERFORM check_lengths(lease, retention);
    -- What is executed next must not outlive a claim that a crash of the server has forgotten.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    RETURN QUERY SELECT * FROM acquire(
        request(scope, key, fingerprint, lease, retention, operation, on_abandoned, owner));
END
$$;

-- enter: a claim in the very transaction that has the effect and completes. There is no lease, since nobody else
-- sees the record before all of it is committed, and a crash leaves nothing behind. `lease` and `owner` are
-- taken so that either function fits one call; here they say nothing.
CREATE FUNCTION oncegate.enter(
    scope text, key text, fingerprint bytea, lease interval DEFAULT '30 s', retention interval DEFAULT '24 h',
    operation text DEFAULT '', on_abandoned text DEFAULT 'takeover', owner uuid DEFAULT NULL)
RETURNS TABLE (outcome text, record uuid, fence bigint, attempt integer, status integer, headers jsonb, body bytea,
               completed_at timestamptz, expires_in interval, retry_after interval)
LANGUAGE plpgsql SECURITY DEFINER ROWS 1 SET search_path = oncegate, pg_temp AS $$
BEGIN
    PERFORM check_transaction();
    PERFORM check_lengths(NULL, retention);
    RETURN QUERY SELECT * FROM acquire(
        request(scope, key, fingerprint, interval '0', retention, operation, on_abandoned, NULL));
END
$$;

-- Whoever enters and commits without completing would leave an effect with no response: its transaction fails.
CREATE FUNCTION oncegate.require_completion() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = oncegate, pg_temp AS $$
BEGIN
    PERFORM FROM records AS r WHERE r.record = NEW.record AND r.fence = NEW.fence AND r.state = 'in_flight';
    IF FOUND THEN
        RAISE EXCEPTION 'record % was entered and is not completed', NEW.record
            USING ERRCODE = 'OG004', HINT = 'Call oncegate.complete before COMMIT, or roll back.';
    END IF;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER entered_is_completed AFTER INSERT OR UPDATE ON oncegate.records
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.state = 'in_flight' AND NEW.lease = interval '0')
EXECUTE FUNCTION oncegate.require_completion();

-- extend: one guarded statement. A lease that ended may still be extended while nobody took over.
CREATE FUNCTION oncegate.extend(record uuid, fence bigint, lease interval) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = oncegate, pg_temp AS $$
#variable_conflict use_column
DECLARE
    length CONSTANT interval := exact(extend.lease);
BEGIN
    PERFORM check_lengths(length, NULL);
    UPDATE records AS r
    SET lease_until = clock_timestamp() + length,
        expires_at = clock_timestamp() + greatest(r.retention, length)
    WHERE r.record = extend.record AND r.fence = extend.fence AND r.state = 'in_flight'
      AND r.expires_at > clock_timestamp();
    RETURN FOUND;
END
$$;

-- complete: called in the transaction that has the effect. It succeeds on the transition alone: a record that is
-- completed already raises too, under the same fence as well, or one fence that is delivered twice would commit
-- two effects. Waits for another transaction that completes this record, and then goes by what that did.
CREATE FUNCTION oncegate.complete(
    record uuid, fence bigint, status integer, headers jsonb, body bytea, retention interval DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = oncegate, pg_temp AS $$
#variable_conflict use_column
DECLARE
    life    CONSTANT interval := exact(complete.retention);
    present records;
BEGIN
    PERFORM check_lengths(NULL, life);
    -- What a gateway could not read back would fail every repeat.
    IF complete.headers IS NULL OR NOT jsonb_path_match(complete.headers,
        'strict $.type() == "array" && !exists($[*] ? (@.type() != "array" || @.size() != 2
                                                       || exists(@[*] ? (@.type() != "string"))))')
        OR complete.headers::text ~ '[^\u0001-\u00ff]' THEN
        RAISE EXCEPTION 'headers are not a JSON array of [name, value] pairs of strings in Latin-1'
            USING ERRCODE = '22023';
    END IF;
    UPDATE records AS r
    SET state = 'completed', status = complete.status, completed_at = clock_timestamp(),
        retention = coalesce(life, r.retention), expires_at = clock_timestamp() + coalesce(life, r.retention),
        lease_until = NULL, doubted_at = NULL, doubt_reason = NULL
    WHERE r.record = complete.record AND r.fence = complete.fence AND r.state IN ('in_flight', 'unknown')
      AND r.expires_at > clock_timestamp();
    IF FOUND THEN
        INSERT INTO responses VALUES (complete.record, complete.fence, complete.headers, complete.body);
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

-- release: a repeat executes. A takeover leaves what it took over, abandoned again under a fence that nobody
-- holds: an earlier attempt may have had an effect, so the key stays bound to its first request.
CREATE FUNCTION oncegate.release(record uuid, fence bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = oncegate, pg_temp AS $$
#variable_conflict use_column
BEGIN
    DELETE FROM records AS r
    WHERE r.record = release.record AND r.fence = release.fence AND r.state = 'in_flight' AND r.attempt = 1
      AND r.expires_at > clock_timestamp();
    IF FOUND THEN
        RETURN true;
    END IF;
    UPDATE records AS r
    SET fence = nextval('fences'), owner = NULL, attempt = r.attempt - 1, lease = r.lease / 2,
        lease_until = clock_timestamp(), expires_at = clock_timestamp() + r.retention
    WHERE r.record = release.record AND r.fence = release.fence AND r.state = 'in_flight' AND r.attempt > 1
      AND r.expires_at > clock_timestamp();
    RETURN FOUND;
END
$$;

-- doubt: one guarded statement.
CREATE FUNCTION oncegate.doubt(record uuid, fence bigint, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = oncegate, pg_temp AS $$
#variable_conflict use_column
BEGIN
    UPDATE records AS r
    SET state = 'unknown', doubted_at = clock_timestamp(), doubt_reason = left(doubt.reason, 200),
        lease_until = NULL, expires_at = clock_timestamp() + r.retention
    WHERE r.record = doubt.record AND r.fence = doubt.fence AND r.state = 'in_flight'
      AND r.expires_at > clock_timestamp();
    RETURN FOUND;
END
$$;

-- Nothing is everybody's; 003 grants what applications need.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA oncegate FROM PUBLIC;
