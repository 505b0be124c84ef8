-- audit: the latest entries first.
SELECT at, verb, record, operation, fence, state, status, operator, reason, forced
FROM oncegate.audit
ORDER BY entry DESC
LIMIT $1::bigint
