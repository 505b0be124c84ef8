-- The table of the plain recipe, as it is found in many applications.
DROP TABLE IF EXISTS plain;
CREATE TABLE plain (
    key         text        NOT NULL PRIMARY KEY,
    fingerprint bytea       NOT NULL,
    status      integer,
    body        bytea,
    created_at  timestamptz NOT NULL DEFAULT now()
);
