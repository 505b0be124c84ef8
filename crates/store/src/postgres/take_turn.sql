-- Whoever gets a row may try to open an outbox, alone for a few seconds. One who takes longer opens none: the sentinel of
-- whoever comes next is another one.
UPDATE oncegate.front f
SET turn_until = clock_timestamp() + INTERVAL '5 s'
WHERE f.epoch = $1::bigint AND f.mode = 'authoritative' AND f.turn_until < clock_timestamp()
RETURNING f.epoch
