//! get, list, census: what people and dashboards see.

use super::{
    Case,
    trial::{LEASE, MOMENT, RETENTION, STATES, Trial, idempotent, repeat, request, request_in, response, under},
};
use crate::{Census, Filter, Record, RecordId, RecordPrefix, Scope, StateName, Written};

pub(super) const CASES: &[Case] = cases![
    get_reads_the_response_of_a_completed_record_only,
    get_of_an_absent_or_expired_record_finds_nothing,
    list_shows_what_get_shows_oldest_first,
    list_filters_by_state,
    list_filters_what_was_abandoned,
    list_filters_by_scope_by_key_and_by_prefix,
    list_combines_its_filters,
    list_is_limited,
    list_leaves_out_what_expired,
    a_takeover_keeps_its_place_in_the_list,
    census_counts_every_state,
    census_leaves_out_what_expired,
];

async fn get_reads_the_response_of_a_completed_record_only(trial: Trial) {
    for state in STATES {
        let request = request(state.as_str());
        trial.acquire_and_bring_to(state, &request).await;
        let (record, stored) = trial.get(request.id.digest()).await.expect("acquired just now");
        assert_eq!(record.state.name(), state);
        assert_eq!(stored, (state == StateName::Completed).then(|| response(201)));
    }
}

async fn get_of_an_absent_or_expired_record_finds_nothing(trial: Trial) {
    assert_eq!(trial.get(request("absent").id.digest()).await, None);
    for state in STATES {
        let request = request(state.as_str());
        trial.acquire_and_bring_to(state, &request).await;
        if trial.stands_still() {
            trial.advance(RETENTION - std::time::Duration::from_micros(1)).await;
            assert!(!trial.is_absent(&request).await, "{state:?}");
            trial.advance(std::time::Duration::from_micros(1)).await;
        } else {
            trial.advance(RETENTION + MOMENT).await;
        }
        assert!(trial.is_absent(&request).await, "{state:?}");
    }
}

async fn list_shows_what_get_shows_oldest_first(trial: Trial) {
    let mut expected = Vec::new();
    for (key, state) in ["z", "m", "a"].into_iter().zip(STATES) {
        let request = request_in("x-org=1:a", key);
        trial.acquire_and_bring_to(state, &request).await;
        expected.push(trial.record(&request).await);
        trial.advance(MOMENT).await;
    }
    assert_eq!(trial.list(&Filter::default()).await, expected);
    assert_eq!(trial.another().await.list(&Filter::default()).await, expected);
}

async fn list_filters_by_state(trial: Trial) {
    for state in STATES {
        for number in 0..2 {
            trial.acquire_and_bring_to(state, &request(&format!("{}{number}", state.as_str()))).await;
        }
    }
    for state in STATES {
        let listed = trial.list(&Filter { state: Some(state), ..Filter::default() }).await;
        assert_eq!(listed.len(), 2);
        assert!(listed.iter().all(|record| record.state.name() == state), "{listed:?}");
    }
}

async fn list_filters_what_was_abandoned(trial: Trial) {
    let abandoned = [request("plain"), idempotent("idempotent")];
    for request in &abandoned {
        trial.acquire(request).await;
    }
    trial.acquire_and_bring_to(StateName::Completed, &request("completed")).await;
    trial.acquire_and_bring_to(StateName::Unknown, &request("unknown")).await;
    trial.advance(LEASE + MOMENT).await;
    trial.acquire(&request("live")).await;
    let listed = trial.list(&Filter { abandoned: true, ..Filter::default() }).await;
    assert_eq!(sorted_keys(&listed), ["idempotent", "plain"]);
    let in_flight = trial.list(&Filter { state: Some(StateName::InFlight), ..Filter::default() }).await;
    assert_eq!(sorted_keys(&in_flight), ["idempotent", "live", "plain"], "abandoned is in flight");
}

async fn list_filters_by_scope_by_key_and_by_prefix(trial: Trial) {
    for (scope, key) in [("", "k"), ("a", "k"), ("a", "l"), ("ab", "k"), ("A", "K"), ("%", "_")] {
        trial.acquire(&request_in(scope, key)).await;
    }
    let id = |scope: &str, key: &str| request_in(scope, key).id;
    let scope = |text: &str| Some(Scope::from_text(text).expect("a short scope"));
    let key = |text: &str| Some(request(text).id.key().clone());
    let part = |text: &str| Some(text.to_owned());
    let prefix = |scope: &str, key: &str| RecordPrefix::parse(&id(scope, key).digest().short());
    for (filter, expected) in [
        (Filter { scope: scope("a"), ..Filter::default() }, vec![id("a", "k"), id("a", "l")]),
        (Filter { scope: scope(""), ..Filter::default() }, vec![id("", "k")]),
        (Filter { scope: scope("%"), ..Filter::default() }, vec![id("%", "_")]),
        (Filter { key: key("k"), ..Filter::default() }, vec![id("", "k"), id("a", "k"), id("ab", "k")]),
        (Filter { key: key("_"), ..Filter::default() }, vec![id("%", "_")]),
        (Filter { scope: scope("a"), key: key("l"), ..Filter::default() }, vec![id("a", "l")]),
        (Filter { scope: scope("b"), key: key("k"), ..Filter::default() }, vec![]),
        (Filter { scope_part: part("b"), ..Filter::default() }, vec![id("ab", "k")]),
        (Filter { scope_part: part("%"), ..Filter::default() }, vec![id("%", "_")]),
        (Filter { scope_part: part("a"), key: key("k"), ..Filter::default() }, vec![id("a", "k"), id("ab", "k")]),
        (Filter { prefix: prefix("ab", "k"), ..Filter::default() }, vec![id("ab", "k")]),
        (Filter { prefix: prefix("ab", "k"), key: key("l"), ..Filter::default() }, vec![]),
        (Filter { prefix: prefix("ab", "absent"), ..Filter::default() }, vec![]),
    ] {
        let mut listed: Vec<RecordId> = trial.list(&filter).await.into_iter().map(|record| record.id).collect();
        listed.sort_by(|one, other| (one.scope(), one.key()).cmp(&(other.scope(), other.key())));
        assert_eq!(listed, expected, "{filter:?}");
    }
}

async fn list_combines_its_filters(trial: Trial) {
    trial.acquire(&request_in("a", "abandoned")).await;
    trial.acquire(&request_in("b", "abandoned")).await;
    trial.acquire_and_bring_to(StateName::Unknown, &request_in("a", "unknown")).await;
    trial.advance(LEASE + MOMENT).await;
    trial.acquire(&request_in("a", "live")).await;
    let scope = Some(Scope::from_text("a").expect("a short scope"));
    let filter =
        Filter { state: Some(StateName::InFlight), abandoned: true, scope: scope.clone(), ..Filter::default() };
    assert_eq!(sorted_keys(&trial.list(&filter).await), ["abandoned"]);
    let impossible = Filter { state: Some(StateName::Unknown), abandoned: true, scope, ..Filter::default() };
    assert_eq!(trial.list(&impossible).await, []);
}

async fn list_is_limited(trial: Trial) {
    for number in 0..5 {
        trial.acquire(&request(&format!("k{number}"))).await;
        trial.advance(MOMENT / 10).await;
    }
    let rows = |rows| Filter { rows, ..Filter::default() };
    let all = trial.list(&rows(0)).await;
    assert_eq!(all.len(), 5, "no limit given: the greatest one");
    assert_eq!(trial.list(&rows(usize::MAX)).await, all);
    assert_eq!(trial.list(&rows(2)).await, all[..2], "the oldest ones");
    assert_eq!(trial.list(&rows(5)).await, all);
}

async fn list_leaves_out_what_expired(trial: Trial) {
    trial.acquire(&under(&request("short"), |policy| policy.retention = LEASE)).await;
    trial.acquire(&request("long")).await;
    trial.advance(LEASE + MOMENT).await;
    for filter in [Filter::default(), Filter { abandoned: true, ..Filter::default() }] {
        assert_eq!(sorted_keys(&trial.list(&filter).await), ["long"]);
    }
    let key = Some(request("short").id.key().clone());
    assert_eq!(trial.list(&Filter { key, ..Filter::default() }).await, []);
}

async fn a_takeover_keeps_its_place_in_the_list(trial: Trial) {
    let first = idempotent("first");
    trial.acquire(&first).await;
    trial.advance(MOMENT).await;
    trial.acquire(&request("second")).await;
    trial.advance(LEASE + MOMENT).await;
    trial.acquire(&repeat(&first)).await;
    let listed = trial.list(&Filter::default()).await;
    let keys: Vec<_> = listed.iter().map(|record| record.id.key().as_str()).collect();
    assert_eq!(keys, ["first", "second"]);
}

async fn census_counts_every_state(trial: Trial) {
    assert_eq!(trial.census().await, Census::default());
    for number in 0..4 {
        trial.acquire(&idempotent(&format!("abandoned{number}"))).await;
    }
    trial.advance(LEASE + MOMENT).await;
    for (state, count) in [(StateName::InFlight, 3), (StateName::Completed, 2), (StateName::Unknown, 1)] {
        for number in 0..count {
            trial.acquire_and_bring_to(state, &request(&format!("{}{number}", state.as_str()))).await;
        }
    }
    let expected = Census { in_flight: 3, abandoned: 4, completed: 2, unknown: 1 };
    assert_eq!(trial.census().await, expected);
    assert_eq!(trial.another().await.census().await, expected);
}

async fn census_leaves_out_what_expired(trial: Trial) {
    for state in STATES {
        let short = under(&request(state.as_str()), |policy| policy.retention = LEASE);
        trial.acquire_and_bring_to(state, &short).await;
    }
    let lease = trial.acquire(&request("long")).await;
    trial.advance(LEASE + MOMENT).await;
    assert_eq!(trial.census().await, Census { abandoned: 1, ..Census::default() });
    assert_eq!(trial.complete(&lease, &response(201)).await, Written::Done);
    assert_eq!(trial.census().await, Census { completed: 1, ..Census::default() });
}

fn sorted_keys(records: &[Record]) -> Vec<&str> {
    let mut keys: Vec<_> = records.iter().map(|record| record.id.key().as_str()).collect();
    keys.sort_unstable();
    keys
}
