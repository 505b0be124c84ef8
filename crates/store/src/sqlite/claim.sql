-- claim: writes the in-flight row of a record that is absent.
--
-- Atomic because the writer's transaction is IMMEDIATE: since the row was read and judged by `decide`,
-- nobody else, in this process or another, could write. PostgreSQL has many writers and needs one
-- statement with ON CONFLICT instead.
INSERT INTO records (born, record, scope, key, operation, spelling, fingerprint, backend, on_abandoned, state, fence,
                     owner, attempt, lease, retention, created_at, lease_until, expires_at)
VALUES (:fence, :record, :scope, :key, :operation, :spelling, :fingerprint, :backend, :on_abandoned, 'in_flight', :fence,
        :owner, :attempt, :lease, :retention, :created_at, :lease_until, :expires_at)
