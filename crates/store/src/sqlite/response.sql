-- response: what was stored when this record was completed under this fence.
SELECT headers, body FROM responses WHERE fence = :fence AND record = :record
