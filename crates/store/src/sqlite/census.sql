-- census: counts the living in one snapshot. Open records are few, and are read from their index; the expired
-- ones among the completed come from the end of theirs; counting all walks the pages, not the rows, of the
-- smallest index. So completed records are what is left of all. An expired record's lease has ended
-- (record_outlives_lease).
SELECT in_flight, abandoned, unknown, everything - open - expired AS completed
FROM (SELECT count(*) AS everything FROM records),
     (SELECT count(*) AS expired FROM records INDEXED BY records_by_expiry
      WHERE completed_at IS NOT NULL AND expires_at <= :now),
     (SELECT count(*) AS open,
             count(*) FILTER (WHERE state = 'in_flight' AND lease_until > :now) AS in_flight,
             count(*) FILTER (WHERE state = 'in_flight' AND lease_until <= :now AND expires_at > :now) AS abandoned,
             count(*) FILTER (WHERE state = 'unknown' AND expires_at > :now) AS unknown
      FROM records INDEXED BY records_open
      WHERE completed_at IS NULL)
