-- How each batch begins; it ends with COMMIT, sent along with it.
--
-- READ COMMITTED by name, since the statements count on it and the server's default is the user's. Whatever the
-- planner believes of a table that was never analysed, every statement finds its rows by their primary key, and no
-- time is spent on estimates from the values of long lists. Nothing of ours waits for a foreign transaction; should it
-- ever (an INSERT beside the try-lock, a migration), not for long. A batch is never cancelled half way to its commit,
-- and never answered before that is on disk; a stricter setting of the user's stays. All of it is local to the
-- transaction, for PgBouncer's sake.
BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_hashjoin = off;
SET LOCAL enable_mergejoin = off;
SET LOCAL jit = off;
SET LOCAL plan_cache_mode = force_generic_plan;
SET LOCAL lock_timeout = '200ms';
SET LOCAL statement_timeout = 0;
SELECT set_config('synchronous_commit', 'on', TRUE) WHERE current_setting('synchronous_commit') = 'off';
