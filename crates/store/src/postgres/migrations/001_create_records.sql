-- Records, their responses, what operators did, and the sequence of fences.
--
-- Built-in types only, so that every driver can read a row. Columns of fixed width come first: their places
-- need no searching, and no padding. States, backends and rules are words, for whoever reads with psql.
--
-- Claims of one record exclude each other by pg_try_advisory_xact_lock on the first 64 bits of its digest, big
-- endian and signed: every writer of claims, in whatever language, takes this very lock.

CREATE SCHEMA oncegate;

-- One for all records, so that a number never returns, not even when its record is gone. Without a cache:
-- a number that a session had put aside could be smaller than the one it must follow.
CREATE SEQUENCE oncegate.fences AS bigint START 1 INCREMENT 1 NO CYCLE CACHE 1;

-- Room in each page (fillfactor) and no index on a column that a claim's end changes: every completion is a
-- heap-only update, which leaves the indexes alone.
CREATE TABLE oncegate.records (
    record       uuid        NOT NULL PRIMARY KEY, -- first 128 bits of SHA-256 of scope and key
    fence        bigint      NOT NULL,
    created_at   timestamptz NOT NULL,             -- of this life; immutable in it
    expires_at   timestamptz NOT NULL,
    lease_until  timestamptz,
    completed_at timestamptz,
    doubted_at   timestamptz,
    attempt      integer     NOT NULL,
    status       integer,                          -- HTTP status of the stored response
    lease        interval    NOT NULL,             -- as given; hours and less, never days: those depend on
    retention    interval    NOT NULL,             -- the session's time zone when they are added to a time
    owner        uuid,                             -- token of the latest acquisition
    state        text        NOT NULL,
    backend      text        NOT NULL,
    on_abandoned text        NOT NULL,
    spelling     text        NOT NULL,             -- of the key, in the first request
    fingerprint  bytea       NOT NULL,
    scope        text        NOT NULL,
    key          text        NOT NULL,
    operation    text        NOT NULL,             -- of the first request
    doubt_reason text,

    CONSTRAINT scope_has_a_limit        CHECK (octet_length(scope) <= 1024),
    CONSTRAINT key_has_a_length         CHECK (octet_length(key) BETWEEN 1 AND 255),
    CONSTRAINT fingerprint_has_a_length CHECK (octet_length(fingerprint) BETWEEN 1 AND 64),
    CONSTRAINT spelling_is_known        CHECK (spelling IN ('bare', 'quoted')),
    CONSTRAINT backend_is_known         CHECK (backend IN ('plain', 'idempotent', 'transactional')),
    CONSTRAINT on_abandoned_is_known    CHECK (on_abandoned IN ('takeover', 'unknown')),
    CONSTRAINT state_is_known           CHECK (state IN ('in_flight', 'completed', 'unknown')),
    CONSTRAINT fence_is_positive        CHECK (fence > 0),
    CONSTRAINT attempt_counts           CHECK (attempt > 0),
    CONSTRAINT in_flight_has_lease      CHECK ((state = 'in_flight') = (lease_until IS NOT NULL)),
    CONSTRAINT completed_has_time       CHECK ((state = 'completed') = (completed_at IS NOT NULL)),
    CONSTRAINT completed_has_status     CHECK ((state = 'completed') = (status IS NOT NULL)),
    CONSTRAINT status_is_http           CHECK (status BETWEEN 100 AND 999),
    CONSTRAINT unknown_has_time         CHECK ((state = 'unknown') = (doubted_at IS NOT NULL)),
    CONSTRAINT unknown_has_reason       CHECK ((state = 'unknown') = (doubt_reason IS NOT NULL)),
    CONSTRAINT record_outlives_lease    CHECK (lease_until <= expires_at),
    CONSTRAINT every_state_lives        CHECK (expires_at > coalesce(completed_at, doubted_at))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- For the reaper: the oldest first. The only index beside the primary key; its column never changes in a life.
CREATE INDEX records_by_birth ON oncegate.records (created_at);

-- Apart from the records: with the response in the row, half of the completions would leave their page.
CREATE TABLE oncegate.responses (
    record  uuid   NOT NULL,
    fence   bigint NOT NULL,
    headers jsonb  NOT NULL,                       -- array of [name, value], values Latin-1
    body    bytea,                                 -- NULL: not kept; empty: an empty body

    PRIMARY KEY (record, fence),
    CONSTRAINT headers_are_a_list CHECK (jsonb_typeof(headers) = 'array')
);

-- However a completed record goes (reaped, purged, replaced by a new life, or by hand), its response goes with
-- it. Not a foreign key: that would lock the record once more for each response.
CREATE FUNCTION oncegate.drop_response() RETURNS trigger
LANGUAGE plpgsql SET search_path = oncegate, pg_temp AS $$
BEGIN
    DELETE FROM responses WHERE record = OLD.record AND fence = OLD.fence;
    RETURN NULL;
END
$$;

CREATE TRIGGER response_follows_record AFTER DELETE ON oncegate.records
FOR EACH ROW WHEN (OLD.state = 'completed') EXECUTE FUNCTION oncegate.drop_response();

CREATE TRIGGER response_follows_life AFTER UPDATE ON oncegate.records
FOR EACH ROW WHEN (OLD.state = 'completed' AND NEW.fence <> OLD.fence) EXECUTE FUNCTION oncegate.drop_response();

-- What operators did. Entries outlive their records, so they repeat what a person needs to know of one; the
-- client's key is not kept: it and its scope lead to the record's digest.
CREATE TABLE oncegate.audit (
    entry     bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL,
    verb      text        NOT NULL,
    record    uuid        NOT NULL,
    operation text        NOT NULL,                -- of the record's first request
    fence     bigint      NOT NULL,
    state     text        NOT NULL,                -- that was left
    status    integer,                             -- of the response that was given
    operator  text        NOT NULL,
    reason    text        NOT NULL,
    forced    boolean     NOT NULL,                -- a live lease was no obstacle

    CONSTRAINT verb_leaves_state   CHECK (CASE state WHEN 'completed' THEN verb = 'purge'
                                                     WHEN 'in_flight' THEN verb IN ('resolve', 'release')
                                                     WHEN 'unknown'   THEN verb IN ('resolve', 'release')
                                                     ELSE false END),
    CONSTRAINT resolve_has_status  CHECK ((verb = 'resolve') = (status IS NOT NULL)),
    CONSTRAINT operator_has_a_name CHECK (octet_length(operator) BETWEEN 1 AND 100),
    CONSTRAINT reason_is_given     CHECK (octet_length(reason) BETWEEN 1 AND 500)
);

CREATE FUNCTION oncegate.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = oncegate, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'an entry of the audit is never changed';
END
$$;

CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON oncegate.audit
FOR EACH ROW EXECUTE FUNCTION oncegate.refuse_change();

-- What was applied to this database. Whoever applies a file adds its row in the same transaction.
CREATE TABLE oncegate.migrations (
    number     integer     NOT NULL PRIMARY KEY,
    name       text        NOT NULL,
    checksum   text        NOT NULL,               -- SHA-256 of the file, hexadecimal
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Nobody has a right here but the owner, until a later file grants some.
REVOKE ALL ON SCHEMA oncegate FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA oncegate FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA oncegate FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA oncegate FROM PUBLIC;
