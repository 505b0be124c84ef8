-- list: living records in the order of their birth. Walks the index of that until enough rows match.
-- statement_timestamp(), because a volatile clock would be asked once for every row.
SELECT record, scope, key, operation, spelling, fingerprint, backend, on_abandoned, state, status, fence, owner, attempt,
       lease, retention, created_at, lease_until, completed_at, doubted_at, doubt_reason, expires_at,
       statement_timestamp() + $1::interval AS now
FROM oncegate.records
WHERE expires_at > statement_timestamp() + $1::interval
  AND ($2::text IS NULL OR state = $2)
  AND (NOT $3::boolean OR lease_until <= statement_timestamp() + $1::interval)
  AND ($4::text IS NULL OR scope = $4)
  AND ($5::text IS NULL OR strpos(scope, $5) > 0)
  AND ($6::text IS NULL OR key = $6)
  AND ($7::uuid IS NULL OR record BETWEEN $7 AND $8::uuid)
ORDER BY created_at, record
LIMIT $9::bigint
