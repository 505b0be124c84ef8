-- list of what is not completed: as list.sql, but found by the partial index, however large the table is.
SELECT record
FROM records INDEXED BY records_open
WHERE completed_at IS NULL
  AND expires_at > :now
  AND (:state IS NULL OR state = :state)
  AND (NOT :abandoned OR lease_until <= :now)
  AND (:scope IS NULL OR scope = :scope)
  AND (:scope_part IS NULL OR instr(scope, :scope_part) > 0)
  AND (:key IS NULL OR key = :key)
ORDER BY born
LIMIT :rows
