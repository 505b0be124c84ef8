-- Records, their responses, and the sequence of fences.
--
-- Where PostgreSQL differs: times are integers here (microseconds since 1970 by the clock that the
-- store was opened with) and `timestamptz` there; the digest is a 16-byte BLOB here and a `uuid` there.
-- States, backends and rules are words in both, so that a person with the sqlite3 shell can read them.

CREATE TABLE records (
    -- The fence of the first claim of this life. Immutable and growing, so new rows go to the end of
    -- the table and rows lie in the order of their birth. Kept by digest (WITHOUT ROWID) every row would
    -- dirty a page of its own: half as much CPU time again at 300,000 rows.
    born         INTEGER NOT NULL PRIMARY KEY,
    record       BLOB    NOT NULL UNIQUE,   -- first 128 bits of SHA-256 of scope and key
    scope        TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    operation    TEXT    NOT NULL,          -- of the first request
    spelling     TEXT    NOT NULL,          -- of the key, in the first request
    fingerprint  BLOB    NOT NULL,
    backend      TEXT    NOT NULL,
    on_abandoned TEXT    NOT NULL,
    state        TEXT    NOT NULL,
    status       INTEGER,                   -- HTTP status of the stored response
    fence        INTEGER NOT NULL,
    owner        BLOB,                      -- token of the latest acquisition
    attempt      INTEGER NOT NULL,
    lease        INTEGER NOT NULL,          -- microseconds, as given
    retention    INTEGER NOT NULL,          -- microseconds
    created_at   INTEGER NOT NULL,
    lease_until  INTEGER,
    completed_at INTEGER,
    doubted_at   INTEGER,
    doubt_reason TEXT,
    expires_at   INTEGER NOT NULL,

    -- OR rather than IN: for a list of three SQLite builds a temporary table, for every row (a third of
    -- all CPU time).
    CONSTRAINT record_is_a_digest       CHECK (length(record) = 16),
    CONSTRAINT owner_is_a_token         CHECK (length(owner) = 16),
    CONSTRAINT fingerprint_has_a_length CHECK (length(fingerprint) BETWEEN 1 AND 64),
    CONSTRAINT spelling_is_known        CHECK (spelling = 'bare' OR spelling = 'quoted'),
    CONSTRAINT backend_is_known         CHECK (backend = 'plain' OR backend = 'idempotent' OR backend = 'transactional'),
    CONSTRAINT on_abandoned_is_known    CHECK (on_abandoned = 'takeover' OR on_abandoned = 'unknown'),
    CONSTRAINT state_is_known           CHECK (state = 'in_flight' OR state = 'completed' OR state = 'unknown'),
    CONSTRAINT fence_grows              CHECK (fence >= born AND born > 0),
    CONSTRAINT attempt_counts           CHECK (attempt > 0),
    CONSTRAINT in_flight_has_lease      CHECK ((state = 'in_flight') = (lease_until IS NOT NULL)),
    CONSTRAINT completed_has_time       CHECK ((state = 'completed') = (completed_at IS NOT NULL)),
    CONSTRAINT completed_has_status     CHECK ((state = 'completed') = (status IS NOT NULL)),
    CONSTRAINT status_is_http           CHECK (status BETWEEN 100 AND 999),
    CONSTRAINT unknown_has_time         CHECK ((state = 'unknown') = (doubted_at IS NOT NULL)),
    CONSTRAINT unknown_has_reason       CHECK ((state = 'unknown') = (doubt_reason IS NOT NULL)),
    CONSTRAINT record_outlives_lease    CHECK (lease_until <= expires_at),
    CONSTRAINT every_state_lives        CHECK (expires_at > coalesce(completed_at, doubted_at))
) STRICT;

-- Keyed by record and fence: a fence belongs to one acquisition of one record, so the number alone is
-- unique, and responses too are appended at the end. The status stands in the record.
CREATE TABLE responses (
    fence   INTEGER NOT NULL PRIMARY KEY,
    record  BLOB    NOT NULL,
    headers TEXT    NOT NULL,               -- JSON array of [name, value], values Latin-1
    body    BLOB,                           -- NULL: not kept; empty: an empty body

    CONSTRAINT record_is_a_digest CHECK (length(record) = 16)
) STRICT;

-- However a record goes (reaped, purged, replaced, or by hand), its response goes with it.
CREATE TRIGGER response_follows_record AFTER DELETE ON records WHEN OLD.state = 'completed'
BEGIN
    DELETE FROM responses WHERE fence = OLD.fence;
END;

-- What the reaper deletes. Its entries move on completion, but nearly always at the index's end: at
-- most a tenth of the time of a claim and its completion. PostgreSQL indexes no column that changes.
CREATE INDEX records_by_expiry ON records (expires_at);

-- What is not completed: few rows, whatever the table holds. For the reaper, the census and lists.
CREATE INDEX records_open ON records (state, on_abandoned, lease_until) WHERE state <> 'completed';

-- The last fence given. Apart from the records, so that no number returns when they are all gone.
CREATE TABLE fences (
    one  INTEGER NOT NULL PRIMARY KEY,
    last INTEGER NOT NULL,

    CONSTRAINT one_row CHECK (one = 1)
) STRICT;

INSERT INTO fences (one, last) VALUES (1, 0);

CREATE TRIGGER fence_is_never_reused BEFORE UPDATE ON fences WHEN NEW.last < OLD.last
BEGIN
    SELECT raise(ABORT, 'a fence is never reused');
END;

PRAGMA application_id = 0x6f6e6365; -- "once": what tells this file from another program's
PRAGMA user_version = 1;
