-- reap: deletes expired records, the open ones first, so that they never stand in the way of what is still to
-- be doubted; the responses of completed ones follow by trigger. Bounded as reap_abandoned.sql is. (SQLite is
-- built without DELETE ... LIMIT.)
DELETE FROM records
WHERE born IN (SELECT born
               FROM (SELECT born, expires_at
                     FROM records INDEXED BY records_open
                     WHERE completed_at IS NULL
                       AND iif(on_abandoned = 'unknown', coalesce(lease_until, expires_at), expires_at) <= :now
                     LIMIT 2 * :rows)
               WHERE expires_at <= :now
               UNION ALL
               SELECT born
               FROM records INDEXED BY records_by_expiry
               WHERE completed_at IS NOT NULL AND expires_at <= :now
               LIMIT :rows)
