-- purge: one guarded statement. A live lease is deleted by force only; its response follows by trigger.
DELETE FROM records
WHERE record = :record AND fence = :fence AND state = :state AND expires_at > :now
  AND (:force OR lease_until IS NULL OR lease_until <= :now)
