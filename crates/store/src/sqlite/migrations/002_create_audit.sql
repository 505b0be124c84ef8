-- What operators did. Entries outlive their records, so they repeat what a person needs to know of one;
-- the client's key is not kept: it and its scope lead to the record's digest.

CREATE TABLE audit (
    entry     INTEGER NOT NULL PRIMARY KEY,
    at        INTEGER NOT NULL,             -- microseconds since 1970, by the store's clock
    verb      TEXT    NOT NULL,
    record    BLOB    NOT NULL,
    operation TEXT    NOT NULL,             -- of the record's first request
    fence     INTEGER NOT NULL,
    state     TEXT    NOT NULL,             -- that was left
    status    INTEGER,                      -- of the response that was given
    operator  TEXT    NOT NULL,
    reason    TEXT    NOT NULL,
    forced    INTEGER NOT NULL,             -- 1: a live lease was no obstacle

    CONSTRAINT record_is_a_digest   CHECK (length(record) = 16),
    CONSTRAINT verb_leaves_state    CHECK (CASE state WHEN 'completed' THEN verb = 'purge'
                                                      WHEN 'in_flight' THEN verb IN ('resolve', 'release')
                                                      WHEN 'unknown'   THEN verb IN ('resolve', 'release')
                                                      ELSE 0 END),
    CONSTRAINT resolve_has_status   CHECK ((verb = 'resolve') = (status IS NOT NULL)),
    CONSTRAINT operator_has_a_name  CHECK (length(CAST(operator AS BLOB)) BETWEEN 1 AND 100),
    CONSTRAINT reason_is_given      CHECK (length(CAST(reason AS BLOB)) BETWEEN 1 AND 500),
    CONSTRAINT forced_is_yes_or_no  CHECK (forced IN (0, 1))
) STRICT;

CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT raise(ABORT, 'an entry of the audit is never changed');
END;

PRAGMA user_version = 2;
