-- Completed records with answers of 400 bytes, numbered from $1 to $2: what half a day leaves in a table. Digests are
-- random, as they are in life; births follow each other.
WITH filled AS (
    INSERT INTO oncegate.records (record, scope, key, operation, spelling, fingerprint, backend, on_abandoned, state,
                                  status, fence, owner, attempt, lease, retention, created_at, completed_at, expires_at)
    SELECT md5('fill' || n)::uuid, 'authorization#32:0123456789abcdef0123456789abcdef', md5('key' || n)::uuid::text,
           'POST /api/payments', 'bare', decode(repeat('07', 41), 'hex'), 'plain', 'unknown', 'completed', 201,
           nextval('oncegate.fences'), md5('owner' || n)::uuid, 1, INTERVAL '30 s', INTERVAL '24:00:00', at, at,
           at + INTERVAL '24:00:00'
    FROM (SELECT n, statement_timestamp() - INTERVAL '12:00:00' + n * INTERVAL '1 ms' AS at
          FROM generate_series($1::bigint, $2::bigint) AS n) AS numbered
    RETURNING record, fence
)
INSERT INTO oncegate.responses (record, fence, headers, body)
SELECT record, fence, '[["content-type", "application/json"]]', convert_to(repeat('x', 400), 'UTF8')
FROM filled
