-- Remembers that a front stands before the records. Where another one stood, nothing of before counts.
INSERT INTO oncegate.front AS f (address)
VALUES ($1)
ON CONFLICT (one) DO UPDATE SET address = excluded.address, name = gen_random_uuid()
WHERE f.address <> excluded.address
