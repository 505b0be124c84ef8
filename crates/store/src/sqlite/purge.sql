-- purge: one guarded statement. A live lease is deleted by force only; its response follows by trigger.
-- What is returned goes into the audit, in the same transaction.
DELETE FROM records
WHERE record = :record AND fence = :fence AND state = :state AND expires_at > :now
  AND (:force OR lease_until IS NULL OR lease_until <= :now)
RETURNING operation
