-- withdraw: one guarded statement; a takeover is given back by give_back.sql instead. The caller knows its
-- owner token, not the fence it was given.
DELETE FROM records
WHERE record = :record AND owner = :owner AND state <> 'completed' AND attempt = 1 AND expires_at > :now
