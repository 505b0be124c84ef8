-- Closes the outbox of this sentinel: no new key is claimed for `quiet`, and after that they are claimed here. From when
-- that is counted is said once this is committed (keep_quiet.sql).
UPDATE oncegate.front f
SET mode = 'authoritative', epoch = f.epoch + 1, sentinel = NULL, switched_at = 'infinity',
    rest = CASE
               WHEN clock_timestamp() < f.switched_at + INTERVAL '1 min' THEN LEAST(2 * f.rest, INTERVAL '10 min')
               ELSE 2 * f.quiet
           END
WHERE f.sentinel = $1::uuid
RETURNING f.epoch
