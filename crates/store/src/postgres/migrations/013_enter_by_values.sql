-- What a claim, an entry and a completion cost the server when they come alone, once more (see 007).
--
-- A row of values that a function has ready is written for less than one that a subquery makes, and two statements for
-- less than one that hands rows from its UPDATE to its INSERT. And to call a function of one row costs a fifth less if it
-- is selected than if it is selected from, and less than two thirds of one that returns a table of ten columns: so
-- `enter_new` is there beside `enter`.

-- enter_new: enters where the key has no record. Else both columns are NULL and nothing was done, and `enter` says what
-- there is to say, also of an argument out of range.
CREATE FUNCTION oncegate.enter_new(
    scope text, key text, fingerprint bytea, retention interval DEFAULT '24 h', operation text DEFAULT '',
    on_abandoned text DEFAULT 'takeover', OUT record uuid, OUT fence bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = oncegate, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    at   CONSTANT timestamptz := clock_timestamp();
    life interval;
BEGIN
    -- As `check_transaction`, `check_lengths` and `request` have it.
    IF current_setting('transaction_isolation') = 'read committed' AND current_setting('transaction_read_only') = 'off'
       AND enter_new.retention > interval '0' AND enter_new.retention <= interval '400 days'
       AND octet_length(enter_new.scope) <= 1024 AND octet_length(enter_new.key) BETWEEN 1 AND 255
       AND enter_new.key !~ '[^!-~]' AND octet_length(enter_new.fingerprint) BETWEEN 1 AND 64
       AND enter_new.on_abandoned IN ('takeover', 'unknown') THEN
        record := record_id(enter_new.scope, enter_new.key);
        life := exact(enter_new.retention);
        -- Looks before it locks, so that a repeat locks nothing and writes nothing.
        IF (SELECT true FROM records AS r WHERE r.record = enter_new.record) IS NULL
           AND pg_try_advisory_xact_lock(lock_id(enter_new.record)) THEN
            INSERT INTO records AS r (record, fence, created_at, expires_at, lease_until, attempt, lease, retention,
                                      state, backend, on_abandoned, spelling, fingerprint, scope, key, operation)
            VALUES (enter_new.record, nextval('fences'), at, at + life, at, 1, interval '0', life, 'in_flight',
                    'transactional', enter_new.on_abandoned, 'bare', enter_new.fingerprint, enter_new.scope,
                    enter_new.key, coalesce(left(enter_new.operation, 512), ''))
            ON CONFLICT (record) DO NOTHING
            RETURNING r.fence INTO fence;
        END IF;
        IF fence IS NULL THEN
            record := NULL;
        END IF;
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION oncegate.enter(
    scope text, key text, fingerprint bytea, lease interval DEFAULT '30 s', retention interval DEFAULT '24 h',
    operation text DEFAULT '', on_abandoned text DEFAULT 'takeover', owner uuid DEFAULT NULL)
RETURNS TABLE (outcome text, record uuid, fence bigint, attempt integer, status integer, headers jsonb, body bytea,
               completed_at timestamptz, expires_in interval, retry_after interval)
LANGUAGE plpgsql SECURITY DEFINER ROWS 1 SET search_path = oncegate, pg_temp SET enable_seqscan = off AS $$
BEGIN
    SELECT n.record, n.fence INTO record, fence
    FROM enter_new(scope, key, fingerprint, retention, operation, on_abandoned) AS n;
    IF record IS NOT NULL THEN
        outcome := 'acquired';
        attempt := 1;
        RETURN NEXT;
        RETURN;
    END IF;
    PERFORM check_transaction();
    PERFORM check_lengths(NULL, retention);
    RETURN QUERY SELECT * FROM acquire(
        request(scope, key, fingerprint, interval '0', retention, operation, on_abandoned, NULL));
END
$$;

-- claim: as in 007, and a new key by values. The `acquire` that it called there stays for calls that are on their way.
CREATE OR REPLACE FUNCTION oncegate.claim(
    scope text, key text, fingerprint bytea, lease interval DEFAULT '30 s', retention interval DEFAULT '24 h',
    operation text DEFAULT '', on_abandoned text DEFAULT 'takeover', owner uuid DEFAULT NULL)
RETURNS TABLE (outcome text, record uuid, fence bigint, attempt integer, status integer, headers jsonb, body bytea,
               completed_at timestamptz, expires_in interval, retry_after interval)
LANGUAGE plpgsql SECURITY DEFINER ROWS 1 SET search_path = oncegate, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    at     CONSTANT timestamptz := clock_timestamp();
    length interval;
    life   interval;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' OR current_setting('transaction_read_only') <> 'off'
       OR claim.lease < interval '100 ms' OR claim.lease > interval '1 h' OR claim.lease > claim.retention
       OR claim.retention > interval '400 days' THEN
        PERFORM check_transaction();
        PERFORM check_lengths(claim.lease, claim.retention);
    END IF;
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RAISE EXCEPTION 'a claim must commit before anything else is written, and this transaction has written'
            USING ERRCODE = 'OG003', HINT = 'Claim in a transaction of its own, or use oncegate.enter.';
    END IF;
    -- What is executed next must not outlive a claim that a crash of the server has forgotten.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    -- As `request` has it, which says what is wrong.
    IF octet_length(claim.scope) <= 1024 AND octet_length(claim.key) BETWEEN 1 AND 255 AND claim.key !~ '[^!-~]'
       AND octet_length(claim.fingerprint) BETWEEN 1 AND 64 AND claim.on_abandoned IN ('takeover', 'unknown')
       AND claim.lease IS NOT NULL AND claim.retention IS NOT NULL THEN
        record := record_id(claim.scope, claim.key);
        length := exact(claim.lease);
        life := exact(claim.retention);
        -- Looks before it locks, so that a repeat locks nothing and writes nothing.
        IF (SELECT true FROM records AS r WHERE r.record = claim.record) IS NULL
           AND pg_try_advisory_xact_lock(lock_id(claim.record)) THEN
            INSERT INTO records AS r (record, fence, created_at, expires_at, lease_until, attempt, lease, retention, owner,
                                      state, backend, on_abandoned, spelling, fingerprint, scope, key, operation)
            VALUES (claim.record, nextval('fences'), at, at + life, at + length, 1, length, life, claim.owner,
                    'in_flight', 'transactional', claim.on_abandoned, 'bare', claim.fingerprint, claim.scope, claim.key,
                    coalesce(left(claim.operation, 512), ''))
            ON CONFLICT (record) DO NOTHING
            RETURNING 'acquired', r.fence, 1 INTO outcome, fence, attempt;
            IF FOUND THEN
                RETURN NEXT;
                RETURN;
            END IF;
        END IF;
    END IF;
    RETURN QUERY SELECT * FROM acquire(
        request(claim.scope, claim.key, claim.fingerprint, claim.lease, claim.retention, claim.operation,
                claim.on_abandoned, claim.owner));
END
$$;

-- complete: as in 007, by two statements.
CREATE OR REPLACE FUNCTION oncegate.complete(
    record uuid, fence bigint, status integer, headers jsonb, body bytea, retention interval DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = oncegate, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    life    interval;
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
    life := exact(complete.retention);
    UPDATE records AS r
    SET state = 'completed', status = complete.status, completed_at = clock_timestamp(),
        retention = coalesce(life, r.retention), expires_at = clock_timestamp() + coalesce(life, r.retention),
        lease_until = NULL, doubted_at = NULL, doubt_reason = NULL, owner = NULL
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

-- Whoever may enter may enter what is new.
REVOKE ALL ON FUNCTION oncegate.enter_new(text, text, bytea, interval, text, text) FROM PUBLIC;
DO $$
DECLARE
    who text;
BEGIN
    FOR who IN
        SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END
        FROM pg_catalog.pg_proc AS p, pg_catalog.aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
        WHERE p.oid = 'oncegate.enter(text, text, bytea, interval, interval, text, text, uuid)'::regprocedure
          AND a.privilege_type = 'EXECUTE'
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION oncegate.enter_new(text, text, bytea, interval, text, text) TO %s', who);
    END LOOP;
END
$$;
