//! What is opened, what is refused, and what is left behind.

use std::{fs, path::Path, sync::Arc, thread};

use oncegate_core::{Claim, Store, Written};
use oncegate_store::sqlite::{OpenError, SqliteStore};
use rusqlite::Connection;

use crate::fixture::{Place, acquire, request, response};

/// Opening must fail, name the file, and leave it as it was.
fn refusal(place: &Place) -> OpenError {
    let before = fs::read(place.path()).expect("the test wrote a file");
    let error = SqliteStore::open(place.path(), place.options()).expect_err("this file must be refused");
    assert!(error.to_string().contains("records.db"), "{error}");
    assert!(before == fs::read(place.path()).expect("it is still there"), "the file was changed");
    error
}

/// A file of ours with some records, closed.
async fn written() -> Place {
    let place = Place::fresh();
    let store = place.open();
    for number in 0..200 {
        let lease = acquire(&store, &request(&format!("k{number}"))).await;
        let completed = store.complete(&lease, &response(&[b'x'; 500])).await;
        assert_eq!(completed.expect("the store works"), Written::Done);
    }
    place
}

#[test]
fn a_file_of_another_kind_is_refused() {
    let place = Place::fresh();
    fs::write(place.path(), "listen = '127.0.0.1:8080'\n".repeat(400)).unwrap();
    assert!(matches!(refusal(&place), OpenError::NotADatabase { .. }));
}

#[test]
fn a_database_of_another_program_is_refused() {
    for sql in ["CREATE TABLE payments (id INTEGER)", "PRAGMA application_id = 1196444487", "PRAGMA user_version = 3"] {
        for mode in ["DELETE", "WAL"] {
            let place = Place::fresh();
            let other = Connection::open(place.path()).unwrap();
            other.pragma_update_and_check(None, "journal_mode", mode, |_| Ok(())).unwrap();
            other.execute_batch(sql).unwrap();
            drop(other);
            assert!(matches!(refusal(&place), OpenError::Foreign { .. }), "{sql}");
        }
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    // Another journal mode too, as a later schema may want one: it must not be changed before the refusal.
    for mode in ["WAL", "DELETE"] {
        let place = written().await;
        let newer = place.connect();
        newer.pragma_update_and_check(None, "journal_mode", mode, |_| Ok(())).unwrap();
        newer.execute_batch("PRAGMA user_version = 99").unwrap();
        drop(newer);
        let error = refusal(&place);
        assert!(matches!(error, OpenError::Newer { found: 99, known: 4, .. }), "{error}");
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_without_writing_its_log_back() {
    let place = written().await;
    let crashed = Place::fresh();
    let newer = place.connect();
    newer.execute_batch("PRAGMA user_version = 99").unwrap();
    for (from, to) in [(place.path(), crashed.path()), (place.wal(), crashed.wal())] {
        fs::copy(from, to).unwrap();
    }
    let log = fs::read(crashed.wal()).unwrap();
    assert!(matches!(refusal(&crashed), OpenError::Newer { .. }));
    assert!(log == fs::read(crashed.wal()).unwrap(), "the log was changed");
}

#[tokio::test]
async fn a_damaged_file_is_refused() {
    let place = written().await;
    let good = fs::read(place.path()).unwrap();
    let pages = good.len() / 4096;
    for page in 1..pages {
        let mut bad = good.clone();
        bad[page * 4096..page * 4096 + 64].fill(0xee);
        fs::write(place.path(), bad).unwrap();
        let error = refusal(&place);
        assert!(matches!(error, OpenError::Damaged { .. }), "page {page}: {error}");
    }
    fs::write(place.path(), &good[..good.len() / 2]).unwrap();
    assert!(matches!(refusal(&place), OpenError::Damaged { .. }));
    fs::write(place.path(), good).unwrap();
    place.open();
}

#[test]
fn a_directory_that_does_not_exist_is_named() {
    let place = Place::fresh();
    let path = place.directory.path().join("missing").join("records.db");
    let error = SqliteStore::open(&path, place.options()).unwrap_err();
    assert!(error.to_string().contains("missing/records.db cannot be opened"), "{error}");
}

#[tokio::test]
async fn what_was_answered_survives_the_death_of_the_process() {
    let place = Place::fresh();
    let store = place.open();
    let (done, running) = (request("done"), request("running"));
    let lease = acquire(&store, &done).await;
    assert_eq!(store.complete(&lease, &response(b"kept")).await.unwrap(), Written::Done);
    let running_lease = acquire(&store, &running).await;

    // What a killed process leaves: the file and its log as they are now, nothing written back.
    let crashed = Place::fresh();
    fs::copy(place.path(), crashed.path()).unwrap();
    fs::copy(place.wal(), crashed.wal()).unwrap();
    let survivor = crashed.open();
    assert!(matches!(survivor.claim(&request("done")).await.unwrap(), Claim::Completed(_)));
    assert!(matches!(survivor.claim(&request("running")).await.unwrap(), Claim::InFlight { .. }));
    assert!(acquire(&survivor, &request("new")).await.fence > running_lease.fence);
}

#[tokio::test]
async fn the_last_store_leaves_no_log() {
    let place = written().await;
    let (one, two) = (place.open(), place.open());
    acquire(&one, &request("new")).await;
    drop(one);
    assert!(place.wal().exists());
    drop(two);
    assert!(!place.wal().exists());
    let moved = Place::fresh();
    fs::copy(place.path(), moved.path()).unwrap();
    assert_eq!(moved.open().census().await.unwrap().completed, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_may_open_a_new_file_at_once() {
    let place = Arc::new(Place::fresh());
    let open = |place: &Arc<Place>| {
        let place = Arc::clone(place);
        thread::spawn(move || place.open())
    };
    let opening: Vec<_> = (0..8).map(|_| open(&place)).collect();
    let stores: Vec<_> = opening.into_iter().map(|thread| Arc::new(thread.join().unwrap())).collect();

    let claims: Vec<_> =
        stores.iter().flat_map(|store| (0..20).map(|number| claim(Arc::clone(store), number))).collect();
    let mut fences = Vec::new();
    for claim in claims {
        fences.extend(claim.await.unwrap());
    }
    let acquired = fences.len();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!((acquired, fences.len()), (20, 20), "each key is acquired once, under a fence of its own");
}

fn claim(store: Arc<SqliteStore>, number: usize) -> tokio::task::JoinHandle<Option<oncegate_core::Fence>> {
    tokio::spawn(async move {
        match store.claim(&request(&format!("k{number}"))).await.expect("the store works") {
            Claim::Acquired(lease) => Some(lease.fence),
            Claim::InFlight { .. } => None,
            other => panic!("{other:?}"),
        }
    })
}

#[cfg(unix)]
#[test]
fn a_new_file_is_for_its_owner_and_an_old_one_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let place = Place::fresh();
    let store = place.open();
    assert_eq!((mode(&place.path()), mode(&place.wal())), (0o600, 0o600));
    drop(store);
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o640)).unwrap();
    let _store = place.open();
    assert_eq!((mode(&place.path()), mode(&place.wal())), (0o640, 0o640));
}
