-- list of those whose digest begins so: as list.sql, but found by the index of digests.
SELECT record
FROM records
WHERE record BETWEEN :first AND :last
  AND expires_at > :now
  AND (:state IS NULL OR state = :state)
  AND (NOT :abandoned OR lease_until <= :now)
  AND (:scope IS NULL OR scope = :scope)
  AND (:scope_part IS NULL OR instr(scope, :scope_part) > 0)
  AND (:key IS NULL OR key = :key)
ORDER BY born
LIMIT :rows
