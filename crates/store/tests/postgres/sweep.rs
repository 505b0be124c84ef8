//! Reaping by birth: random records against a full scan, in passes that read few rows whatever the table's size.

use oncegate_core::Store as _;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::fixture::{Place, acquire, request, response};

/// How many records a pass may delete.
const ROWS: i64 = 20;

/// How many random worlds are played: few on every change, as many as are asked for on demand.
const WORLDS: &str = "ONCEGATE_SWEEPS";
const WORLDS_DEFAULT: u32 = 3;

/// A database whose clock is moved on, and what was put into it.
struct World {
    client: Client,
    /// Seconds.
    ahead: f64,
    /// Whether some records become visible long after their birth.
    is_late: bool,
    seed: u32,
}

// === playing ===

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passes_find_what_a_full_scan_finds_and_spare_the_living() {
    let place = Place::start(&["fsync=off"]).await;
    let worlds = std::env::var(WORLDS).map_or(WORLDS_DEFAULT, |count| count.parse().unwrap());
    for seed in 0..worlds {
        let place = place.emptied().await;
        let mut world = World { client: place.connect().await, ahead: 0.0, is_late: seed % 2 == 1, seed };
        world.play().await;
    }
}

impl World {
    async fn play(&mut self) {
        let seed = f64::from(self.seed % 1000) / 1000.0;
        self.run(&format!("SELECT setseed({seed})")).await;
        for _ in 0..12 {
            self.run(BEAR).await;
            self.census_is_right().await;
            let advance = "SELECT (ARRAY[1, 30, 600, 7200, 108000])[1 + floor(random() * 5)::int]";
            self.ahead += f64::from(u32::try_from(self.number(advance).await).unwrap());
            self.run(LIVE).await;
            for _ in 0..self.number("SELECT 1 + floor(random() * 3)::bigint").await {
                self.pass().await;
            }
            self.census_is_right().await;
        }

        let records = self.number("SELECT count(*) FROM oncegate.records").await;
        self.run(&format!("CREATE TEMPORARY TABLE due AS SELECT record, fence FROM oncegate.records WHERE {DUE}"))
            .await;
        // The look at the old waits for whose work took longer, up to ten minutes here.
        self.ahead += 900.0;
        // Two rounds of the slow look where it is needed, and what it finds.
        let rounds = if self.is_late { 2 * records / (ROWS / 4) } else { 0 };
        for _ in 0..(rounds + 2 * records / ROWS + 10) {
            self.pass().await;
        }
        let left =
            "SELECT count(*) FROM due AS d JOIN oncegate.records AS r USING (record, fence) WHERE r.state <> 'unknown'
                    OR r.expires_at <= statement_timestamp() + AHEAD - interval '1 min'";
        assert_eq!(self.number(left).await, 0, "world {}: what was due is left, of {records} records", self.seed);
        self.run("DROP TABLE due").await;

        self.is_late = false;
        self.census_is_right().await;
    }

    /// One pass, which deletes and doubts only what is due, and not too much of it.
    async fn pass(&self) {
        if !self.is_late {
            // The other looks miss nothing here while the usual retention stays: the look that goes round is no help.
            self.run("UPDATE oncegate.sweep SET round_born = 'infinity', horizon = '24:00:00'").await;
        }
        self.run(
            "CREATE TEMPORARY TABLE living AS SELECT record, fence, state, lease_until FROM oncegate.records
             WHERE expires_at > statement_timestamp() + AHEAD + interval '10 s'",
        )
        .await;
        let sql = format!("SELECT expired || ' ' || doubted FROM oncegate.reap_pass({ROWS}, AHEAD)");
        let told = self.text(&sql).await;
        let counts: Vec<i64> = told.split(' ').map(|count| count.parse().unwrap()).collect();
        assert!(counts.iter().all(|count| *count <= ROWS), "{told}");
        let harmed = "SELECT count(*) FROM living AS l LEFT JOIN oncegate.records AS r USING (record, fence)
                      WHERE r.record IS NULL OR (r.state <> l.state AND (r.on_abandoned = 'takeover'
                            OR l.lease_until > statement_timestamp() + AHEAD + interval '10 s'))";
        assert_eq!(self.number(harmed).await, 0, "world {}", self.seed);
        self.run("DROP TABLE living").await;
    }

    /// Without late commits every moment's, and in the end in any case.
    async fn census_is_right(&self) {
        if self.is_late {
            return;
        }
        let census = include_str!("../../src/postgres/census.sql");
        for bytes in ["0", "1000000000"] {
            let census = census.replace("$1::interval", "AHEAD").replace("$2::bigint", bytes);
            // In one statement, so at one moment.
            let counted = format!("SELECT concat_ws(' ', in_flight, abandoned, unknown) FROM ({census}) AS c");
            let both = self.text(&format!("SELECT ({counted}) || ' | ' || ({SCAN})")).await;
            let (counted, scanned) = both.split_once(" | ").unwrap();
            assert_eq!(counted, scanned, "world {}: in flight, abandoned, unknown", self.seed);
        }
        let listed = format!("SELECT array_agg(record ORDER BY record) FROM ({}) AS l", list_open("AHEAD"));
        let open = "SELECT array_agg(record ORDER BY record) FROM oncegate.records
                    WHERE state <> 'completed' AND expires_at > statement_timestamp() + AHEAD";
        let is_same = self.text(&format!("SELECT ({listed}) IS NOT DISTINCT FROM ({open})")).await;
        assert_eq!(is_same, "t", "world {}: the list of what is open", self.seed);
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(&self.timed(sql)).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    async fn number(&self, sql: &str) -> i64 {
        self.text(sql).await.parse().unwrap()
    }

    async fn text(&self, sql: &str) -> String {
        let messages = self.client.simple_query(&self.timed(sql)).await;
        let messages = messages.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        let value = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        messages.iter().find_map(value).unwrap()
    }

    fn timed(&self, sql: &str) -> String {
        let spread = if self.is_late { "interval '80 h'" } else { "interval '0.9 s'" };
        sql.replace("AHEAD", &format!("interval '{} s'", self.ahead)).replace("SPREAD", spread)
    }
}

/// The list of what is open, whatever it is.
fn list_open(ahead: &str) -> String {
    let sql = include_str!("../../src/postgres/list_open.sql").replace("$1::interval", ahead);
    let sql = sql.replace("$3::boolean", "false").replace("$9::bigint", "1000000");
    (2..=8).fold(sql, |sql, number| sql.replace(&format!("${number}"), "NULL"))
}

/// Sixty records of all kinds, born just now, or, in some worlds, one in ten of them long ago.
const BEAR: &str = "
    INSERT INTO oncegate.records (record, scope, key, operation, spelling, fingerprint, backend, on_abandoned, state,
                                  status, fence, attempt, lease, retention, created_at, lease_until, completed_at,
                                  doubted_at, doubt_reason, expires_at)
    SELECT gen_random_uuid(), 's', gen_random_uuid()::text, 'POST /', 'bare', '\\x07', 'plain', rule, state,
           CASE state WHEN 'completed' THEN 201 END, nextval('oncegate.fences'), 1, lease, retention, born,
           CASE state WHEN 'in_flight' THEN born + lease END, CASE state WHEN 'completed' THEN born + worked END,
           CASE state WHEN 'unknown' THEN born + worked END, CASE state WHEN 'unknown' THEN 'reset' END,
           born + retention + CASE state WHEN 'in_flight' THEN interval '0' ELSE worked END
    FROM (SELECT statement_timestamp() + AHEAD
                 - CASE WHEN random() < 0.1 THEN random() * SPREAD ELSE random() * interval '0.9 s' END AS born,
                 (ARRAY['completed', 'completed', 'in_flight', 'in_flight', 'unknown'])[1 + floor(random() * 5)::int] AS state,
                 (ARRAY['unknown', 'unknown', 'takeover'])[1 + floor(random() * 3)::int] AS rule,
                 least(random() * interval '60 s', retention) AS lease, retention,
                 CASE WHEN random() < 0.2 THEN random() * interval '10 min' ELSE random() * interval '0.1 s' END AS worked
          FROM (SELECT n, (ARRAY[interval '1 s', interval '1 min', interval '1 h', interval '24:00:00',
                                 interval '24:00:00', interval '24:00:00', interval '168:00:00',
                                 random() * interval '100:00:00'])[1 + floor(random() * 8)::int] AS retention
                FROM generate_series(1, 60) AS n) AS kinds) AS made
    WHERE lease > interval '0'";

/// What requests and operators do meanwhile: completions, extensions, takeovers, new lives, purges.
const LIVE: &str = "
    UPDATE oncegate.records
    SET state = 'completed', status = 201, completed_at = statement_timestamp() + AHEAD, lease_until = NULL,
        doubted_at = NULL, doubt_reason = NULL, expires_at = statement_timestamp() + AHEAD + retention
    WHERE state <> 'completed' AND expires_at > statement_timestamp() + AHEAD AND random() < 0.3;
    UPDATE oncegate.records
    SET lease_until = statement_timestamp() + AHEAD + lease, expires_at = statement_timestamp() + AHEAD + retention
    WHERE state = 'in_flight' AND expires_at > statement_timestamp() + AHEAD AND random() < 0.2;
    UPDATE oncegate.records
    SET state = 'in_flight', created_at = statement_timestamp() + AHEAD, fence = nextval('oncegate.fences'),
        status = NULL, completed_at = NULL, doubted_at = NULL, doubt_reason = NULL, attempt = 1,
        lease_until = statement_timestamp() + AHEAD + lease, expires_at = statement_timestamp() + AHEAD + retention
    WHERE expires_at <= statement_timestamp() + AHEAD AND random() < 0.2;
    DELETE FROM oncegate.records WHERE random() < 0.02";

/// What a pass has to do something about.
const DUE: &str = "(expires_at <= statement_timestamp() + AHEAD
     OR (state = 'in_flight' AND on_abandoned = 'unknown' AND lease_until <= statement_timestamp() + AHEAD))";

const SCAN: &str = "
    SELECT concat_ws(' ', count(*) FILTER (WHERE state = 'in_flight' AND lease_until > statement_timestamp() + AHEAD),
                     count(*) FILTER (WHERE state = 'in_flight' AND lease_until <= statement_timestamp() + AHEAD),
                     count(*) FILTER (WHERE state = 'unknown'))
    FROM oncegate.records WHERE expires_at > statement_timestamp() + AHEAD";

// === what a pass reads ===

/// Completed records of half a day, in a table that was never analysed.
const FILL: &str = "
    INSERT INTO oncegate.records (record, scope, key, operation, spelling, fingerprint, backend, on_abandoned, state,
                                  status, fence, attempt, lease, retention, created_at, completed_at, expires_at)
    SELECT md5(n::text)::uuid, 's', n::text, 'POST /', 'bare', '\\x07', 'plain', 'unknown', 'completed', 201,
           nextval('oncegate.fences'), 1, '30 s', '24:00:00', now() - n * interval '700 ms',
           now() - n * interval '700 ms', now() + interval '24:00:00' - n * interval '700 ms'
    FROM generate_series(1, 60000) AS n";

/// Rows of the records that were read: by an index, and by walking the table. What earlier transactions read is in it
/// until the server has taken note of it, which it does once a second: only differences count.
const READ: &str = "SELECT coalesce(idx_tup_fetch, 0) || ' ' || seq_tup_read FROM pg_stat_xact_user_tables
                    WHERE schemaname = 'oncegate' AND relname = 'records'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_and_a_census_read_few_rows_of_a_large_table() {
    let place = Place::start(&["fsync=off", "autovacuum=off"]).await;
    let world = World { client: place.connect().await, ahead: 0.0, is_late: false, seed: 0 };
    world.run(FILL).await;
    let read = async |sql: &str| -> i64 {
        let counted = async || -> (i64, i64) {
            let counted = world.text(READ).await;
            let (by_index, walked) = counted.split_once(' ').unwrap();
            (by_index.parse().unwrap(), walked.parse().unwrap())
        };
        world.run("BEGIN; SET LOCAL enable_seqscan = off").await;
        let before = counted().await;
        world.run(sql).await;
        let after = counted().await;
        world.run("COMMIT").await;
        assert_eq!(after.1, before.1, "{sql} walks the table");
        after.0 - before.0
    };
    let pass = "SELECT oncegate.reap_pass(100, '0 s')";
    // 1,000 are looked at for the first time, 25 once more.
    assert!(read(pass).await <= 1_100);
    while world.text("SELECT is_more FROM oncegate.reap_pass(10000, '0 s')").await == "t" {}
    let few = read(pass).await;
    assert!(few <= 200, "{few} rows were read when there was nothing to do");
    let census = include_str!("../../src/postgres/census.sql").replace("$1::interval", "interval '0 s'");
    let few = read(&census.replace("$2::bigint", "0")).await;
    assert!(few <= 200, "a census read {few} rows");
    let few = read(&list_open("interval '0 s'")).await;
    assert!(few <= 200, "a list of what is open read {few} rows");
    // When half of them have expired, each pass reads what it deletes.
    let later = read("SELECT oncegate.reap_pass(100, '18:00:00')").await;
    assert!(later <= 1_000, "{later} rows were read to delete a hundred");
    assert_eq!(world.text("SELECT count(*) FROM oncegate.records").await, "59900");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_and_completions_leave_the_indexes_alone() {
    let place = Place::start(&["fsync=off", "autovacuum=off"]).await;
    let (store, client) = (place.open(), place.connect().await);
    for number in 0..200 {
        let lease = acquire(&store, &request(&number.to_string())).await;
        assert_eq!(store.complete(&lease, &response(b"done")).await.unwrap(), oncegate_core::Written::Done);
    }
    // A server counts what its connections did when they leave, or a second later.
    drop(store);
    let sql = "SELECT n_tup_upd || ' ' || n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'records'";
    let deadline = std::time::Instant::now() + crate::fixture::PATIENCE;
    loop {
        let counted: String = client.query_one(sql, &[]).await.unwrap().get(0);
        if counted.starts_with("200 ") {
            assert_eq!(counted, "200 200", "every completion is a heap-only update");
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{counted}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
