-- What decides the figures of a measurement.
SELECT current_setting('server_version') AS version,
       current_setting('server_version_num')::bigint AS version_number,
       current_setting('cluster_name') AS cluster_name,
       current_setting('max_connections')::bigint
           - current_setting('superuser_reserved_connections')::bigint
           - (SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend') AS connections,
       pg_backend_pid()::bigint AS process,
       coalesce(inet_server_addr() <<= ANY (ARRAY['127.0.0.0/8', '::1/128']::inet[]), TRUE) AS is_local
