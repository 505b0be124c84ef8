-- reap: deletes expired records, oldest expiry first; their responses follow by trigger. Bounded: the
-- index gives the rows without a scan. (SQLite is built without DELETE ... LIMIT.)
DELETE FROM records
WHERE born IN (SELECT born FROM records WHERE expires_at <= :now ORDER BY expires_at LIMIT :rows)
