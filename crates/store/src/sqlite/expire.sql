-- claim of an expired record: the old life goes, so that the new one gets a row of its own.
DELETE FROM records WHERE record = :record AND expires_at <= :now
