-- Forgets deleted records of which no entry of an outbox can be alive any more. Who else does so is left alone.
DELETE FROM oncegate.graves g
WHERE g.record = ANY (ARRAY(SELECT o.record FROM oncegate.graves o WHERE o.expires_at < clock_timestamp()
                            ORDER BY o.expires_at LIMIT $1::bigint FOR UPDATE SKIP LOCKED))
