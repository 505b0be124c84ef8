-- The front that stands before the records, and its generation. That changes with the front's name, and also when another
-- server or another timeline of the same answers here: it may lack what the front has seen confirmed.
SELECT f.address,
       s.system_identifier || ':' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || ':' || f.name AS generation
FROM oncegate.front f
CROSS JOIN pg_control_system() s
