-- claim: writes the in-flight row of a record that is absent. A record that has a row, even an expired one,
-- is left alone: `decide` has to judge it first.
--
-- What follows is atomic because the writer's transaction is IMMEDIATE: nobody else, in this process or
-- another, can write before it ends. PostgreSQL has many writers and must judge in this very statement.
INSERT INTO records (born, record, scope, key, operation, spelling, fingerprint, backend, on_abandoned, state, fence,
                     owner, attempt, lease, retention, created_at, lease_until, expires_at)
VALUES (:fence, :record, :scope, :key, :operation, :spelling, :fingerprint, :backend, :on_abandoned, 'in_flight', :fence,
        :owner, :attempt, :lease, :retention, :created_at, :lease_until, :expires_at)
ON CONFLICT (record) DO NOTHING
