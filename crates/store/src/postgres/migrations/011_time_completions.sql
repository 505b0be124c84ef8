-- A completion says since when and until when its record lives.
--
-- A front keeps that, and asked for it in a statement of its own (complete_batch_timed of 009). Now every completion is
-- told, by the rows that it writes. The function of 009 stays for gateways of before, which may still run.

DROP FUNCTION oncegate.complete_batch(interval, uuid[], bigint[], uuid[], integer[], text[], bytea[]);

-- complete: the guarded transition and the response. `held` locks each row that may be left, in the order of the
-- records, and passes over one that a foreign transaction has locked: such a record is missing in the answer and is
-- asked again. What is stale is judged by a snapshot, so a row that was only passed over is never called stale.
--
-- What the same owner completed before, under the same fence, is this call's own earlier success: `done`, and
-- nothing is written.
CREATE FUNCTION oncegate.complete_batch(
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
        RETURNING r.record, r.fence, r.expires_at, h.headers, h.body
    ),
    responded AS (
        INSERT INTO oncegate.responses (record, fence, headers, body)
        SELECT c.record, c.fence, c.headers::jsonb, c.body
        FROM changed c
    )
    SELECT c.record, 'done', at, c.expires_at, at
    FROM changed c;
    GET DIAGNOSTICS completed = ROW_COUNT;
    IF completed = cardinality(records) THEN
        RETURN;
    END IF;

    -- Of those that were completed just now the answer has two rows, and they agree.
    RETURN QUERY
    SELECT a.record, CASE WHEN r.state = 'completed' AND (r.is_owner OR r.is_ours) THEN 'done' ELSE 'stale' END,
           r.completed_at, r.expires_at, at
    FROM unnest(records, fences, owners) AS a (record, fence, owner)
    LEFT JOIN LATERAL (
        SELECT r.state, r.completed_at, r.expires_at, r.owner = a.owner AS is_owner,
               r.xmin = pg_current_xact_id_if_assigned()::xid AS is_ours
        FROM oncegate.records r
        WHERE r.record = a.record AND r.fence = a.fence AND (a.owner IS NULL OR r.owner = a.owner)
          AND r.expires_at > at
        LIMIT 1
    ) r ON TRUE
    WHERE r.state IS NULL OR r.state NOT IN ('in_flight', 'unknown');
END
$$;

REVOKE ALL ON FUNCTION oncegate.complete_batch(interval, uuid[], bigint[], uuid[], integer[], text[], bytea[]) FROM PUBLIC;
