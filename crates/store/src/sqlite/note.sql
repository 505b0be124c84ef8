-- The entry of the audit for what resolve.sql or purge.sql has just done.
INSERT INTO audit (at, verb, record, operation, fence, state, status, operator, reason, forced)
VALUES (:now, :verb, :record, :operation, :fence, :state, :status, :operator, :reason, :force)
