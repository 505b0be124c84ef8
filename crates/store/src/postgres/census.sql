-- census: counts the living in one snapshot. It reads the whole table.
SELECT count(*) FILTER (WHERE state = 'in_flight' AND lease_until > statement_timestamp() + $1::interval) AS in_flight,
       count(*) FILTER (WHERE state = 'in_flight' AND lease_until <= statement_timestamp() + $1::interval) AS abandoned,
       count(*) FILTER (WHERE state = 'completed') AS completed,
       count(*) FILTER (WHERE state = 'unknown') AS unknown
FROM oncegate.records
WHERE expires_at > statement_timestamp() + $1::interval
