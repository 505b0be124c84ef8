-- Remembers that a front stands before the records, and what the gateway wants that is started with it: `quiet` is as long
-- as any of them may take. Where another front stood, nothing of before counts, and what it had acknowledged may not be
-- here yet.
INSERT INTO oncegate.front AS f (address, durability, quiet, rest)
VALUES ($1, $2, $3, 2 * $3::interval)
ON CONFLICT (one) DO UPDATE
SET address = excluded.address,
    name = CASE WHEN f.address = excluded.address THEN f.name ELSE gen_random_uuid() END,
    durability = excluded.durability,
    quiet = GREATEST(f.quiet, excluded.quiet),
    rest = GREATEST(f.rest, 2 * excluded.quiet),
    mode = CASE WHEN f.address = excluded.address THEN f.mode ELSE 'authoritative' END,
    sentinel = CASE WHEN f.address = excluded.address THEN f.sentinel END,
    epoch = f.epoch + CASE WHEN f.address <> excluded.address AND f.mode = 'outbox' THEN 1 ELSE 0 END,
    switched_at = CASE WHEN f.address <> excluded.address AND f.mode = 'outbox' THEN 'infinity' ELSE f.switched_at END
