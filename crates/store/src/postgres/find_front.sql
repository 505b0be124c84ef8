-- The front that stands before the records, its generation, and who says that a key is new. The generation changes with the
-- front's name, and also when another server or another timeline of the same answers here: it may lack what the front has
-- seen confirmed. `database` is another one for each, also if they are copies of each other.
SELECT f.address,
       s.system_identifier || ':' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || ':' || f.name AS generation,
       left(md5(s.system_identifier || '/' || d.oid), 12) AS database, f.durability, f.epoch, f.sentinel, f.quiet, f.switched_at = 'infinity' AS is_closing,
       clock_timestamp() >= f.switched_at + GREATEST(f.rest, 2 * f.quiet) AS is_rested,
       (SELECT count(*) FROM oncegate.poison) AS poisoned
FROM oncegate.front f
CROSS JOIN pg_control_system() s
JOIN pg_database d ON d.datname = current_database()
