//! How SQLite finds the rows of each statement, on tables that were never analysed.

use std::sync::Arc;

use oncegate_core::ManualClock;
use rusqlite::Connection;

use super::{Options, open};

fn with_connection(test: impl FnOnce(&Connection)) {
    let directory = tempfile::tempdir().expect("temporary directories can be made");
    let options = Options::with_clock(Arc::new(ManualClock::default()));
    test(&open::writer(&directory.path().join("records.db"), &options).expect("the file is new"));
}

/// The steps that touch `records`, as EXPLAIN QUERY PLAN words them.
fn plan(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("it is SQL");
    for parameter in 1..=statement.parameter_count() {
        statement.raw_bind_parameter(parameter, None::<i64>).expect("it has so many parameters");
    }
    let rows = statement.raw_query().mapped(|row| row.get::<_, String>("detail"));
    let steps = rows.map(|step| step.expect("a plan is text"));
    steps.filter(|step| step.contains("records") || step.contains("B-TREE")).collect()
}

#[test]
fn verbs_on_one_record_find_it_by_its_digest() {
    let statements = [
        include_str!("find.sql"),
        include_str!("takeover.sql"),
        include_str!("expire.sql"),
        include_str!("extend.sql"),
        include_str!("complete.sql"),
        include_str!("completed.sql"),
        include_str!("doubt.sql"),
        include_str!("release.sql"),
        include_str!("withdraw.sql"),
        include_str!("give_back.sql"),
        include_str!("resolve.sql"),
        include_str!("purge.sql"),
    ];
    with_connection(|connection| {
        for sql in statements {
            let by_digest = "SEARCH records USING INDEX sqlite_autoindex_records_1 (record=?)";
            assert_eq!(plan(connection, sql), [by_digest], "{sql}");
        }
    });
}

#[test]
fn the_reaper_reads_only_what_it_reaps() {
    with_connection(|connection| {
        let expired = plan(connection, include_str!("reap_expired.sql"));
        assert_eq!(
            expired,
            [
                "SEARCH records USING INTEGER PRIMARY KEY (rowid=?)",
                "SEARCH records USING INDEX records_open (<expr><?)",
                "SEARCH records USING INDEX records_by_expiry (expires_at<?)",
            ]
        );
        let abandoned = plan(connection, include_str!("reap_abandoned.sql"));
        assert_eq!(
            abandoned,
            [
                "SEARCH records USING INTEGER PRIMARY KEY (rowid=?)",
                "SEARCH records USING INDEX records_open (<expr><?)",
            ]
        );
    });
}

#[test]
fn the_census_counts_in_indexes() {
    with_connection(|connection| {
        // Open records are few: only theirs are read.
        assert_eq!(
            plan(connection, include_str!("census.sql")),
            [
                "SCAN records USING COVERING INDEX sqlite_autoindex_records_1",
                "SEARCH records USING INDEX records_by_expiry (expires_at<?)",
                "SCAN records USING INDEX records_open",
            ]
        );
    });
}

#[test]
fn open_records_are_listed_from_their_index_and_all_in_order_of_birth() {
    with_connection(|connection| {
        let open = plan(connection, include_str!("list_open.sql"));
        assert_eq!(open, ["SCAN records USING INDEX records_open", "USE TEMP B-TREE FOR ORDER BY"]);
        // Without a sort it can stop at the last row that fits.
        assert_eq!(plan(connection, include_str!("list.sql")), ["SCAN records"]);
    });
}

#[test]
fn records_are_found_by_the_first_digits_of_their_digest() {
    with_connection(|connection| {
        let by_prefix = plan(connection, include_str!("list_prefix.sql"));
        let by_digest = "SEARCH records USING INDEX sqlite_autoindex_records_1 (record>? AND record<?)";
        assert_eq!(by_prefix, [by_digest, "USE TEMP B-TREE FOR ORDER BY"]);
    });
}
