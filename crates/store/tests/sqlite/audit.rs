//! The audit: what the file itself guards, and files of before it.

use oncegate_core::{Note, OperatorVerb, Seen, Store, Written};
use oncegate_store::sqlite::SqliteStore;

use crate::fixture::{Place, acquire, purge, request, response};

/// A file with one entry in its audit.
async fn audited() -> Place {
    let place = Place::fresh();
    let store = place.open();
    let lease = acquire(&store, &request("k")).await;
    let completed = store.complete(&lease, &response(b"x")).await;
    assert_eq!(completed.expect("the store works"), Written::Done);
    purge(&store, &lease).await;
    place
}

#[tokio::test]
async fn the_audit_survives_the_process_and_the_reaper() {
    let place = audited().await;
    place.clock.advance(request("k").policy.retention * 10);
    let store = place.open();
    store.reap(10).await.unwrap();
    let audit = store.audit(0).await.unwrap();
    assert_eq!(audit.len(), 1);
    assert_eq!((audit[0].verb, audit[0].note.operator()), (OperatorVerb::Purge, "ada"));
    assert_eq!(audit[0].operation.as_str(), "POST /payments");
}

#[tokio::test]
async fn an_entry_is_never_changed() {
    let place = audited().await;
    let error = place.connect().execute_batch("UPDATE audit SET operator = 'eve'").unwrap_err();
    assert!(error.to_string().contains("an entry of the audit is never changed"), "{error}");
}

#[tokio::test]
async fn nothing_is_done_that_cannot_be_audited() {
    let place = Place::fresh();
    let store = place.open();
    let lease = acquire(&store, &request("k")).await;
    let shell = place.connect();
    shell.execute_batch("CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT raise(ABORT, 'full'); END").unwrap();
    let (record, _) = store.get(lease.record).await.unwrap().unwrap();
    let note = Note::new("ada", "why").unwrap().with_force(true);
    let seen = Seen::of(&record);
    assert!(store.purge(seen, &note).await.is_err());
    assert!(store.resolve(seen, &response(b"x"), &note).await.is_err());
    assert_eq!(store.get(lease.record).await.unwrap(), Some((record, None)), "neither half is done");
}

#[tokio::test]
async fn a_file_of_before_the_audit_is_brought_up_to_date() {
    let place = Place::fresh();
    let lease = acquire(&place.open(), &request("k")).await;
    let before =
        "DROP TRIGGER audit_is_never_changed; DROP TABLE audit; DROP TABLE suspicions; DROP INDEX records_open;
                  DROP INDEX records_by_expiry; CREATE INDEX records_by_expiry ON records (expires_at);
                  CREATE INDEX records_open ON records (state, on_abandoned, lease_until) WHERE state <> 'completed';
                  PRAGMA user_version = 1";
    place.connect().execute_batch(before).unwrap();
    let schema = || place.connect().pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!((SqliteStore::pending(place.path()).unwrap(), schema()), (3, 1), "a look changes nothing");
    let store = place.open();
    assert_eq!(SqliteStore::pending(place.path()).unwrap(), 0);
    assert!(store.get(lease.record).await.unwrap().is_some(), "its records are kept");
    assert_eq!(store.audit(0).await.unwrap(), []);
    assert_eq!(store.census().await.unwrap().in_flight, 1);
}
