-- list: digests in the order of birth. Walks the table until enough rows match.
SELECT record
FROM records
WHERE expires_at > :now
  AND (:state IS NULL OR state = :state)
  AND (NOT :abandoned OR lease_until <= :now)
  AND (:scope IS NULL OR scope = :scope)
  AND (:scope_part IS NULL OR instr(scope, :scope_part) > 0)
  AND (:key IS NULL OR key = :key)
ORDER BY born
LIMIT :rows
