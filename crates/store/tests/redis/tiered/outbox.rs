//! Redis in front of PostgreSQL, where the front acknowledges what PostgreSQL has a moment later.

mod conformance;
mod faults;
mod modes;
mod streams;

use std::time::Duration;

use oncegate_core::{Claim, ClaimRequest, ErrorKind, Store};
use oncegate_store::tiered::{Options, TieredStore};

use super::place::{PATIENCE, Place, until};
use crate::fixture::{lasting, repeat, request};

/// New keys wait for two seconds when an outbox is closed; on a busy machine it is closed for being slow as well.
pub(super) fn hasty() -> Options {
    let mut options = Options::default();
    (options.timeout, options.outbox_limit) = (Duration::from_millis(1500), Duration::from_millis(500));
    options
}

/// New keys wait for four seconds, and an answer is not lost for being late: a claim without an owner that is sent again does
/// not recognise itself. Who asks for a key that others ask for waits, and does not say that it is in flight.
fn thorough() -> Options {
    let mut options = Options::default();
    (options.timeout, options.outbox_limit) = (Duration::from_secs(3), Duration::from_secs(1));
    (options.front_timeout, options.wait) = (PATIENCE, PATIENCE);
    options
}

/// Nothing is closed for being slow. New keys wait for so long that a test has to have that [pass](pass_quiet).
fn calm() -> Options {
    let mut options = Options::default();
    (options.timeout, options.front_timeout, options.wait) = (PATIENCE, PATIENCE, PATIENCE);
    options.outbox_limit = PATIENCE;
    options
}

/// As calm as it can be where the clock is moved on by a lease, before the end of which all that comes from an outbox is there.
fn steady() -> Options {
    let mut options = calm();
    (options.timeout, options.outbox_limit) = (Duration::from_secs(10), Duration::from_secs(10));
    options
}

/// A store with an outbox that is open.
async fn open(place: &Place, options: Options) -> TieredStore {
    let store = place.open_with(options).await;
    until("the outbox is open", async || store.has_outbox()).await;
    store
}

/// Has so much time pass for PostgreSQL as new keys wait for after an outbox was closed; twice that, and another is opened.
async fn pass_quiet(place: &Place) {
    let passed = "UPDATE oncegate.front SET switched_at = switched_at - quiet, turn_until = turn_until - quiet
                  WHERE switched_at < 'infinity'";
    until("it is counted how long new keys wait", async || place.changed(passed).await == 1).await;
}

/// A request whose lease outlasts a test on a busy machine.
fn long(key: &str) -> ClaimRequest {
    lasting(request(key), Duration::from_hours(1), Duration::from_hours(24))
}

/// From now on nothing comes from an outbox.
async fn hold_back(place: &Place) {
    place.sql("ALTER FUNCTION oncegate.apply_batch RENAME TO apply_batch_held").await;
}

async fn let_go(place: &Place) {
    place.sql("ALTER FUNCTION oncegate.apply_batch_held RENAME TO apply_batch").await;
}

/// From now on PostgreSQL refuses these rows, by a code of nobody's.
async fn refuse(place: &Place, which: &str) {
    let trigger = format!(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN IF {which} THEN RAISE EXCEPTION 'not this one' USING ERRCODE = 'ZZ001'; END IF; RETURN NEW; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON oncegate.records FOR EACH ROW EXECUTE FUNCTION refuse()"
    );
    place.sql(&trigger).await;
}

/// What a repeat is told until it is in flight: that it cannot be told.
async fn is_in_flight(store: &TieredStore, request: &ClaimRequest) -> bool {
    match store.claim(&repeat(request)).await {
        Ok(Claim::InFlight { .. }) => true,
        Ok(other) => panic!("somebody executes it: {other:?}"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            false
        }
    }
}
