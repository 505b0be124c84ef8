-- suspected: what was noted, the latest first.
SELECT record, earlier, operation, is_anonymous, created_at, earlier_at
FROM oncegate.suspicions
ORDER BY number DESC
LIMIT $1::bigint
