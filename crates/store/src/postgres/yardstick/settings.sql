-- The settings that a reader of the figures needs, as the server shows them.
SELECT s.name, current_setting(s.name) AS value
FROM unnest(ARRAY['fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method', 'wal_compression',
                  'shared_buffers', 'max_wal_size', 'checkpoint_timeout']) AS s (name)
