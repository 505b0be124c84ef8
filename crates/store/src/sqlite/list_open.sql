-- list of what is not completed: as list.sql, but found by the partial index, however large the table is.
SELECT record
FROM records INDEXED BY records_open
WHERE state <> 'completed'
  AND expires_at > :now
  AND (:state IS NULL OR state = :state)
  AND (NOT :abandoned OR lease_until <= :now)
  AND (:scope IS NULL OR scope = :scope)
  AND (:key IS NULL OR key = :key)
ORDER BY born
LIMIT :rows
