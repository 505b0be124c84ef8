-- census: counts the living in one snapshot. The open ones come from the partial index, the expired ones
-- from the end of theirs; counting all walks the pages, not the rows, of the smallest index. So completed
-- records are what is left of all. An expired record's lease has ended (record_outlives_lease).
SELECT in_flight, abandoned, unknown, everything - expired - in_flight - abandoned - unknown AS completed
FROM (SELECT
    (SELECT count(*) FROM records) AS everything,
    (SELECT count(*) FROM records WHERE expires_at <= :now) AS expired,
    (SELECT count(*) FROM records INDEXED BY records_open
     WHERE state <> 'completed' AND state = 'in_flight' AND lease_until > :now) AS in_flight,
    (SELECT count(*) FROM records INDEXED BY records_open
     WHERE state <> 'completed' AND state = 'in_flight' AND lease_until <= :now AND expires_at > :now) AS abandoned,
    (SELECT count(*) FROM records INDEXED BY records_open
     WHERE state <> 'completed' AND state = 'unknown' AND expires_at > :now) AS unknown)
