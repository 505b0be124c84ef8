-- complete_in: the guarded transition and the response, as the SQL contract has it (postgres/migrations): it succeeds on
-- the transition alone. Texts, so that drivers need no type beyond the plainest.
SELECT oncegate.complete($1::text::uuid, $2::bigint, $3::int, $4::text::jsonb, $5::bytea)
