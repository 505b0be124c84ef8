//! The usual forms: guilty by themselves, innocent behind the gate.

use std::collections::BTreeMap;

use crate::{
    process::Gate,
    storm::{KEYS_NOT_PAID_ONCE, Size, serve_example, storm, through},
};

/// The addresses that create a payment, one per form.
const WITHOUT_IDEMPOTENCY: &str = "/api/payments";
const NAIVE: &str = "/api/naive/payments";
const GET_OR_CREATE: &str = "/api/get-or-create/payments";

#[test]
fn without_idempotency_every_repeat_is_a_payment() -> anyhow::Result<()> {
    let (_project, backend) = serve_example(&[])?;
    let size = Size::of(10, 50);

    let report = storm(&backend, &backend.url(WITHOUT_IDEMPOTENCY), size, &[])?;
    assert_eq!(report.verdict.judgement, "guilty");
    assert_eq!(report.executions, size.requests());
    assert_eq!(report.totals.statuses, BTreeMap::from([(201, size.requests())]));
    Ok(())
}

#[test]
fn check_then_act_pays_again_and_answers_500() -> anyhow::Result<()> {
    let (_project, backend) = serve_example(&[])?;
    let size = Size::of(10, 50);

    let report = storm(&backend, &backend.url(NAIVE), size, &[])?;
    assert_eq!(report.verdict.judgement, "guilty");
    assert!(report.executions > size.keys, "several racers pass the check");
    let losers = report.executions - size.keys;
    let others = size.requests() - losers;
    let expected = BTreeMap::from([(201, others), (500, losers)]);
    assert_eq!(report.totals.statuses, expected, "of those that paid, all but one lose the unique index");
    Ok(())
}

#[test]
fn get_or_create_pays_again_and_tells_nobody() -> anyhow::Result<()> {
    let (_project, backend) = serve_example(&[])?;
    let size = Size::of(10, 50);

    let report = storm(&backend, &backend.url(GET_OR_CREATE), size, &[])?;
    assert_eq!(report.verdict.judgement, "guilty");
    assert!(report.executions > size.keys, "a record whose creator is at work looks like that of a dead one");
    assert_eq!(report.totals.statuses, BTreeMap::from([(201, size.requests())]));
    Ok(())
}

#[test]
fn no_form_is_guilty_behind_the_gate() -> anyhow::Result<()> {
    let (project, backend) = serve_example(&[])?;
    let gate = Gate::start(&backend.url(""));
    let size = Size::of(20, 50);

    for form in [WITHOUT_IDEMPOTENCY, NAIVE, GET_OR_CREATE] {
        let report = storm(&backend, &through(&gate, form), size, &[])?;
        assert_eq!(report.verdict.judgement, "innocent", "{form}: {}", report.verdict.line);
        assert_eq!(report.executions, size.keys, "{form}: each key is one payment");
        let statuses = &report.totals.statuses;
        assert!(statuses.keys().all(|status| [201, 409].contains(status)), "{form}: {statuses:?}");
        assert_eq!(statuses.values().sum::<u64>(), size.requests(), "{form}: every repeat is answered: {statuses:?}");
    }
    assert_eq!(project.query("SELECT count(*) FROM payments_payment")?, (3 * size.keys).to_string());
    assert_eq!(project.query(KEYS_NOT_PAID_ONCE)?, "0");
    Ok(())
}

#[test]
fn behind_the_gate_repeats_that_come_back_get_the_first_answer() -> anyhow::Result<()> {
    let (project, backend) = serve_example(&[])?;
    let gate = Gate::start(&backend.url(""));
    let size = Size::of(4, 50);

    let report = storm(&backend, &through(&gate, WITHOUT_IDEMPOTENCY), size, &["--retry", "--parallel-keys", "4"])?;
    // A replay that differs from the first answer would be a fault of its own.
    assert_eq!(report.verdict.judgement, "innocent", "{}", report.verdict.line);
    assert_eq!(report.totals.undecided, 0, "every repeat is answered in the end");
    assert_eq!(report.totals.status_2xx, size.keys, "one first answer for each key");
    assert_eq!(report.totals.replayed, size.requests() - size.keys, "all others are replays of it");
    assert_eq!(project.query(KEYS_NOT_PAID_ONCE)?, "0");
    Ok(())
}
