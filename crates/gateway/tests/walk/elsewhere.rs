//! What the walk does not execute, and which exit codes it expects besides 0.

/// A command, or the first line of a block, that is not executed here.
#[derive(Debug)]
pub(crate) struct Exception {
    pub(crate) page: &'static str,
    pub(crate) words: &'static str,
    /// For readers.
    #[allow(dead_code, reason = "a reason is read by people")]
    pub(crate) reason: &'static str,
}

/// Instead of words: nothing of the page is executed here.
const WHOLE_PAGE: &str = "";

const fn exception(page: &'static str, words: &'static str, reason: &'static str) -> Exception {
    Exception { page, words, reason }
}

// === impl Exception ===

impl Exception {
    /// Whether it speaks of these words on this page.
    pub(crate) fn covers(&self, page: &str, words: &str) -> bool {
        self.page == page && (self.words == WHOLE_PAGE || self.words == words)
    }
}

const IN_CI: &str = "it runs this walk; CI runs it on every change";
const TRANSACTIONAL: &str = "the test `transactional` and the examples' own run it";
const IN_PYTHON: &str = "clients/python/tests/test_page.py follows this page";
const IN_GATE: &str = "crates/gateway/tests/gate/tiered.rs runs it on servers of its own";
const IN_LAB: &str = "crates/gateway/tests/lab.rs runs it on databases of its own";
const IN_INCIDENT: &str = "crates/gateway/tests/gate/incident.rs takes it from this page";
const BUILDS: &str = "it only builds; this test was built by it";

/// Each with its reason. One that matches nothing any more fails a test.
pub(crate) const ELSEWHERE: &[Exception] = &[
    exception("README.md", "scripts/test", IN_CI),
    exception("CONTRIBUTING.md", "scripts/test", IN_CI),
    exception("CONTRIBUTING.md", "scripts/test fmt clippy", IN_CI),
    exception("CONTRIBUTING.md", "cargo build", BUILDS),
    exception("CONTRIBUTING.md", "cargo test -p oncegate-core --all-features", "`scripts/test` runs these tests too"),
    exception("docs/celery.md", WHOLE_PAGE, "clients/python/tests/test_celery.py runs its tasks"),
    exception("docs/django.md", WHOLE_PAGE, IN_PYTHON),
    exception("docs/fastapi.md", WHOLE_PAGE, IN_PYTHON),
    exception("docs/waiting.md", WHOLE_PAGE, "it measures, for minutes"),
    exception("examples/fastapi-orders/README.md", WHOLE_PAGE, IN_PYTHON),
    exception("docs/lab.md", "oncegate lab", IN_LAB),
    exception("docs/lab.md", "oncegate lab --html report.html", IN_LAB),
    exception("docs/fingerprint.md", "SELECT encode(substring(sha256(", "statement.rs asks PostgreSQL"),
    exception(
        "docs/redis.md",
        "ACL SETUSER oncegate on >PASSWORD ~oncegate:* -@all +hello +select +ping +info +config|get +wait +time +eval +evalsha +hget +hmget +hgetall +hset +del +exists +get +set +pexpire +zadd +zrem +zcount +zrangebyscore +zscan +lpush +ltrim +lrange +sadd +srem +smembers +xadd +xdel +xrange +cluster|slots +cluster|shards +asking",
        "crates/store/tests/redis/settings.rs gives this to a user and lets the store be this user",
    ),
    exception(
        "docs/tiered.md",
        "oncegate serve --upstream http://127.0.0.1:8000 --store postgres://oncegate@127.0.0.1/shop --front redis://127.0.0.1:6379",
        IN_GATE,
    ),
    exception(
        "docs/tiered.md",
        "oncegate records list --store postgres://oncegate@127.0.0.1/shop --front redis://127.0.0.1:6379",
        IN_GATE,
    ),
    exception("docs/tiered.md", "DELETE FROM oncegate.front;", IN_GATE),
    exception("docs/transactional.md", "SELECT oncegate.complete(:record, :fence,", "docs/sql.md plays it"),
    exception("docs/transactional.md", "    def pay(self, amount):", TRANSACTIONAL),
    exception("docs/transactional.md", "SELECT key, operation, completed_at FROM oncegate.records", TRANSACTIONAL),
    exception("docs/transactional.md", "async fn order(", TRANSACTIONAL),
    exception(
        "docs/operating.md",
        "oncegate serve --admin-only --store postgres://oncegate@db.internal/shop",
        "crates/gateway/tests/gate/admin_only.rs runs it on a PostgreSQL of its own",
    ),
    exception("docs/runbook.md", "scrape_configs:", IN_INCIDENT),
    exception(
        "docs/runbook.md",
        "SELECT a.pid, a.usename, a.application_name, a.state, now() - a.xact_start AS open_for, l.mode, l.granted,",
        IN_INCIDENT,
    ),
    exception("docs/operating.md", "# /etc/systemd/system/oncegate.service", "read by systemd, which tests lack"),
];

/// Commands that end with another exit code than 0, as their pages say: by their beginning and a word.
pub(crate) const EXIT_CODES: &[(&str, &str, i32)] = &[
    // Straight to a service that pays repeats twice: guilty.
    ("oncegate storm", "--url http://127.0.0.1:8000/", 1),
];
