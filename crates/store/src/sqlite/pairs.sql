-- suspect: one request of one caller under two keys, among the latest 50,000 records: what is not in flight any more, was
-- not refused (4xx), and is not older than the window and the time that an execution may take. `born` grows with time, so
-- that no index on the birth is needed.
SELECT p.record, p.earlier, p.operation, p.is_anonymous, p.created_at, p.earlier_at
FROM (SELECT record, lag(record) OVER same AS earlier, operation,
             scope = '' OR scope GLOB 'route=*' AND instr(scope, ';') = 0 AS is_anonymous,
             created_at, lag(created_at) OVER same AS earlier_at
      FROM (SELECT record, scope, fingerprint, operation, created_at, state, status, expires_at
            FROM records
            ORDER BY born DESC
            LIMIT 50000)
      WHERE created_at > :since AND state <> 'in_flight' AND expires_at > :now
        AND (status IS NULL OR status NOT BETWEEN 400 AND 499)
      WINDOW same AS (PARTITION BY scope, fingerprint ORDER BY created_at, record)) AS p
WHERE p.created_at - p.earlier_at <= :window
  AND NOT EXISTS (SELECT 1 FROM suspicions AS s WHERE s.record = p.record)
ORDER BY p.created_at
LIMIT :rows
