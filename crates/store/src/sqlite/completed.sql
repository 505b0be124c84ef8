-- Whether a completion that changed nothing had already been stored, by the same owner and under the same fence.
SELECT 1
FROM records
WHERE record = :record AND fence = :fence AND owner = :owner AND state = 'completed' AND expires_at > :now
