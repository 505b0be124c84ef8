-- A record that is in flight stands in one index and a completed one in another, where every record stood in
-- the first and every open one in the second too: half as many entries to write for a claim and its completion.

DROP INDEX records_open;
DROP INDEX records_by_expiry;

-- What is not completed: few rows, whatever the table holds. For the reaper, the census and lists. In the order
-- in which the reaper has to come for them: at the end of the lease for what becomes unknown then, otherwise at
-- the end of the record's life. So whatever is due goes, and a pass never reads what may still be taken over.
-- The time of completion stands for the state, since words are dearer to compare (completed_has_time).
CREATE INDEX records_open ON records (iif(on_abandoned = 'unknown', coalesce(lease_until, expires_at), expires_at))
WHERE completed_at IS NULL;

-- The completed records that the reaper deletes. Their times never move again, and nearly always come last.
CREATE INDEX records_by_expiry ON records (expires_at) WHERE completed_at IS NOT NULL;

PRAGMA user_version = 3;
