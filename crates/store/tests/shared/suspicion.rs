//! One request under two keys: what every store that looks for it must find, and what not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{sync::Arc, time::Duration};

use oncegate_core::{
    Backend, Claim, ClaimRequest, Fingerprint, IdempotencyKey, KeySpelling, Lease, Operation, Owner, Policy, RecordId,
    Scope, Store, StoredResponse, Suspicion, Written,
};

/// Longer than between two looks of one store.
pub(crate) const A_LOOK_LATER: Duration = Duration::from_secs(61);

/// Claims a key for a request, which is told apart by one byte.
pub(crate) async fn claim(store: &dyn Store, scope: &str, key: &str, payload: u8) -> Lease {
    let request = ClaimRequest {
        id: RecordId::new(Scope::from_text(scope).unwrap(), IdempotencyKey::new(key).unwrap()),
        fingerprint: Fingerprint::from_bytes(&[payload]).unwrap(),
        owner: Some(Owner::random()),
        operation: Operation::new("POST", &format!("/{key}")),
        spelling: KeySpelling::Bare,
        policy: Arc::new(Policy::gateway(Backend::Plain)),
    };
    match store.claim(&request).await.unwrap() {
        Claim::Acquired(lease) => lease,
        other => panic!("not acquired but {other:?}"),
    }
}

pub(crate) async fn complete(store: &dyn Store, lease: &Lease, status: u16) {
    let response = StoredResponse { status, headers: Vec::new(), body: None };
    assert_eq!(store.complete(lease, &response).await.unwrap(), Written::Done);
}

/// Executes a request; answers its record's lease.
pub(crate) async fn execute(store: &dyn Store, scope: &str, key: &str, payload: u8) -> Lease {
    let lease = claim(store, scope, key, payload).await;
    complete(store, &lease, 201).await;
    lease
}

/// The pair of two executions.
pub(crate) fn pair(earlier: &Lease, later: &Lease, key: &str, is_anonymous: bool) -> Suspicion {
    Suspicion {
        record: later.record,
        earlier: earlier.record,
        operation: Operation::new("POST", &format!("/{key}")),
        is_anonymous,
        created_at: later.created_at,
        earlier_at: earlier.created_at,
    }
}

/// What is a pair, and what is not; each is noted once, whoever finds it.
pub(crate) async fn pairs_are_noted_once(store: &dyn Store, advance: impl Fn(Duration)) {
    let look = async |found| {
        advance(A_LOOK_LATER);
        store.suspect(found, Suspicion::WINDOW).await.unwrap()
    };
    let first = execute(store, "x-org=4:acme", "a1", 1).await;
    advance(Duration::from_secs(2));
    let second = execute(store, "x-org=4:acme", "a2", 1).await;
    execute(store, "x-org=4:acme", "a3", 2).await;
    execute(store, "x-org=5:other", "b1", 1).await;
    let (one, another) = (execute(store, "", "c1", 1).await, execute(store, "", "c2", 1).await);
    let refused = claim(store, "x-org=4:acme", "d1", 3).await;
    complete(store, &refused, 422).await;
    execute(store, "x-org=4:acme", "d2", 3).await;
    let running = claim(store, "x-org=4:acme", "e1", 4).await;
    let beside = execute(store, "x-org=4:acme", "e2", 4).await;
    let (hook, again) = (execute(store, "route=4:hook", "f1", 1).await, execute(store, "route=4:hook", "f2", 1).await);

    let known = pair(&first, &second, "a2", false);
    // Records that were made at one moment have no order but that of their digests.
    let sorted = |mut found: Vec<Suspicion>| {
        found.sort_by_key(|each| each.operation.as_str().to_owned());
        found
            .into_iter()
            .map(|each| (each.is_anonymous, [each.record, each.earlier].map(|record| record.to_string())))
            .map(|(is_anonymous, mut records)| {
                records.sort();
                (is_anonymous, records)
            })
            .collect::<Vec<_>>()
    };
    let expected = vec![known.clone(), pair(&one, &another, "c2", true), pair(&hook, &again, "f2", true)];
    assert_eq!(sorted(look(Vec::new()).await), sorted(expected.clone()));
    assert_eq!(look(vec![known.clone()]).await, [], "it was noted");

    complete(store, &running, 201).await;
    let late = look(Vec::new()).await;
    assert_eq!(sorted(late), sorted(vec![pair(&running, &beside, "e2", false)]), "once it is known how it ended");

    advance(Suspicion::WINDOW);
    let later = execute(store, "x-org=4:acme", "a4", 1).await;
    assert_eq!(look(Vec::new()).await, [], "too far apart");
    let told = pair(&second, &later, "a4", false);
    assert_eq!(
        look(vec![told.clone(), told.clone()]).await,
        std::slice::from_ref(&told),
        "what others have found counts"
    );

    let noted = store.suspected(0).await.unwrap();
    assert_eq!((noted.len(), &noted[0]), (5, &told), "the latest first");
    assert!(noted.contains(&known));
    assert_eq!(store.suspected(1).await.unwrap(), [told]);
}
