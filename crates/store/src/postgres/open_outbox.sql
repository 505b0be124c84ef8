-- Opens the outbox: from now on the front says that a key is new. Alone among claims (012_open_outbox.sql), so that what they
-- have inserted is committed; not obtained within the batch's lock timeout, it is tried again later.
WITH alone AS MATERIALIZED (SELECT pg_advisory_xact_lock(8027507411065663352))
UPDATE oncegate.front f
SET mode = 'outbox', epoch = f.epoch + 1, sentinel = $2::uuid, switched_at = clock_timestamp()
FROM alone
WHERE f.epoch = $1::bigint AND f.mode = 'authoritative' AND f.durability = 'outbox'
RETURNING f.epoch
