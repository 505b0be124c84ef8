-- claim of an abandoned record: a new acquisition under a larger fence. What belongs to the first
-- request (operation, spelling, backend, on_abandoned, created_at) stays.
--
-- Atomic as claim.sql is; the old fence and the state are named all the same, so that no row can be taken
-- over that is not the one that was judged.
UPDATE records
SET fence = :fence, owner = :owner, attempt = :attempt, lease = :lease, retention = :retention,
    lease_until = :lease_until, expires_at = :expires_at
WHERE record = :record AND fence = :previous AND state = 'in_flight' AND lease_until <= :now
