-- How much a database has committed, how much WAL the server has written, where its last checkpoint began, and how many
-- others are connected: what they did is counted when they leave.
SELECT xact_commit AS commits, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint AS wal_bytes,
       (SELECT redo_lsn FROM pg_control_checkpoint())::text AS checkpoint,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE datname = $1::text AND pid <> pg_backend_pid()) AS others
FROM pg_catalog.pg_stat_database
WHERE datname = $1::text
