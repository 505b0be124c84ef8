-- What the records take on the disk, and how much of it each record.
SELECT (SELECT count(*) FROM oncegate.records) AS records,
       pg_table_size('oncegate.records') AS records_table, pg_indexes_size('oncegate.records') AS records_indexes,
       pg_table_size('oncegate.responses') AS responses_table, pg_indexes_size('oncegate.responses') AS responses_indexes
