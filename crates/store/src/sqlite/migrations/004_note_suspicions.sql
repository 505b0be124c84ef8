-- One request under two keys: what was found of it. Each later record is noted once. Nothing that names a caller or a key:
-- those stand in the records, as long as they live.

CREATE TABLE suspicions (
    number       INTEGER NOT NULL PRIMARY KEY,
    record       BLOB    NOT NULL UNIQUE,
    earlier      BLOB    NOT NULL,          -- the record of the same request before it
    operation    TEXT    NOT NULL,          -- of the later record's first request
    is_anonymous INTEGER NOT NULL,          -- 1: nothing tells who calls
    created_at   INTEGER NOT NULL,
    earlier_at   INTEGER NOT NULL,

    CONSTRAINT record_is_a_digest        CHECK (length(record) = 16 AND length(earlier) = 16),
    CONSTRAINT is_anonymous_is_yes_or_no CHECK (is_anonymous IN (0, 1))
) STRICT;

PRAGMA user_version = 4;
