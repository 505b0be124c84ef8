-- Makes void all that the front holds.
UPDATE oncegate.front SET name = gen_random_uuid()
