-- find: the row of a record, expired or not. Readers see one snapshot; the writer sees its own transaction.
SELECT scope, key, operation, spelling, fingerprint, backend, on_abandoned, state, status, fence, owner, attempt,
       lease, retention, created_at, lease_until, completed_at, doubted_at, doubt_reason, expires_at
FROM records
WHERE record = :record
