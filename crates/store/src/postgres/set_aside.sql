-- Keeps what could not be applied, once.
INSERT INTO oncegate.poison (record, fence, state, scope, key, operation, completed_at, status, headers, body, reason)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT ON CONSTRAINT entry_is_set_aside_once DO NOTHING
