-- reap: one pass of migrations/006_sweep_by_birth.sql, which deletes what expired and doubts what was abandoned and may
-- not be taken over, at most so many of each. Rows that somebody holds are passed over: a later pass finds them.
SELECT expired, doubted, is_more FROM oncegate.reap_pass($2::bigint, $1::interval)
