-- One request under two keys: what was found of it, by whom of many gateways whatever.

-- Each later record is noted once. Nothing that names a caller or a key: those stand in the records, as long as they live.
CREATE TABLE oncegate.suspicions (
    number       bigint      NOT NULL GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    record       uuid        NOT NULL,
    earlier      uuid        NOT NULL,             -- the record of the same request before it
    operation    text        NOT NULL,             -- of the later record's first request
    is_anonymous boolean     NOT NULL,             -- nothing tells who calls
    created_at   timestamptz NOT NULL,
    earlier_at   timestamptz NOT NULL,

    CONSTRAINT record_is_noted_once UNIQUE (record)
);

-- When somebody last looked. Whoever holds its lock is the one instance that looks.
CREATE TABLE oncegate.suspicion_look (
    one       boolean     NOT NULL PRIMARY KEY DEFAULT true,
    looked_at timestamptz NOT NULL DEFAULT '-infinity',

    CONSTRAINT one_row CHECK (one)
);
INSERT INTO oncegate.suspicion_look DEFAULT VALUES;

REVOKE ALL ON oncegate.suspicions, oncegate.suspicion_look FROM PUBLIC;
