-- Written once in a transaction, however many leases it gave: nobody sees them before it commits.
-- PostgreSQL uses a sequence.
UPDATE fences SET last = :last WHERE one = 1
