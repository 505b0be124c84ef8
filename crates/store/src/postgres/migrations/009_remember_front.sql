-- A Redis may stand in front of the records (docs/tiered.md). What is answered there must follow what is decided here, so
-- the database remembers that there is one.

-- The one front. `name` is a part of its generation: with another name all that the front holds is void, at the latest
-- when its gateways have looked here again.
CREATE TABLE oncegate.front (
    one     boolean NOT NULL PRIMARY KEY DEFAULT true,
    address text    NOT NULL,
    name    uuid    NOT NULL DEFAULT gen_random_uuid(),

    CONSTRAINT one_row CHECK (one)
);

-- As complete_batch, and says of what it completed since when and until when it lives: the front keeps that too. What is
-- written is seen by the next statement, not by the one that called for it.
CREATE FUNCTION oncegate.complete_batch_timed(
    ahead interval, records uuid[], fences bigint[], owners uuid[], statuses integer[], all_headers text[],
    bodies bytea[]
) RETURNS TABLE (
    record uuid, verdict text, completed_at timestamptz, expires_at timestamptz, now timestamptz
)
LANGUAGE plpgsql SET search_path = oncegate, pg_temp
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET plan_cache_mode = force_generic_plan SET lock_timeout = '200ms' AS $$
#variable_conflict use_column
DECLARE
    found    uuid[];
    verdicts text[];
BEGIN
    SELECT array_agg(b.record), array_agg(b.verdict) INTO found, verdicts
    FROM oncegate.complete_batch(ahead, records, fences, owners, statuses, all_headers, bodies) AS b;
    RETURN QUERY
    SELECT f.record, f.verdict, r.completed_at, r.expires_at, clock_timestamp() + ahead
    FROM unnest(found, verdicts) AS f (record, verdict)
    LEFT JOIN LATERAL (
        SELECT r.completed_at, r.expires_at
        FROM oncegate.records r
        WHERE f.verdict = 'done' AND r.record = f.record
        LIMIT 1
    ) r ON TRUE;
END
$$;

-- As before (003), and tells the front: who purges with psql knows nothing of it.
CREATE OR REPLACE FUNCTION oncegate.purge(record uuid, fence bigint, reason text) RETURNS boolean
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
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE front SET name = gen_random_uuid();
    RETURN true;
END
$$;

REVOKE ALL ON FUNCTION
    oncegate.complete_batch_timed(interval, uuid[], bigint[], uuid[], integer[], text[], bytea[])
FROM PUBLIC;
