-- withdraw: one guarded statement. The caller knows its owner token, not the fence it was given.
DELETE FROM records WHERE record = :record AND owner = :owner AND state = 'in_flight' AND expires_at > :now
