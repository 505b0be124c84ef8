-- A completion by oncegate.complete has no owner.
--
-- The owner is how a claim, and the completion of whoever keeps the token, recognise their own earlier success. What an
-- application completes in its own transaction is not the gateway's success: with the gateway's token left in the row, the
-- gateway would take the backend's completion for its own, count the backend as one that does not complete, and answer
-- repeats from what came over the wire instead of from what was committed.

CREATE OR REPLACE FUNCTION oncegate.complete(
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
