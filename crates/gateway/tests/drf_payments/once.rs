//! The right form: by itself, and behind a gate that it knows or does not know.

use crate::{
    http::get,
    process::Gate,
    servers::gunicorn::{GunicornServer, Project},
    storm::{KEYS_NOT_PAID_ONCE, Size, serve_example, storm, through},
};

/// The address of the right form.
pub(crate) const ONCE: &str = "/api/once/payments";

pub(crate) const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A gate on the database of the project.
pub(crate) fn gate(project: &Project, backend: &GunicornServer, defaults: &str) -> Gate {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("gate.toml"), format!("[defaults]\n{defaults}\n")).unwrap();
    let arguments = ["--config", "gate.toml", "--store", &project.store()];
    Gate::start_in(directory, &backend.url(""), &arguments, &[])
}

/// The defaults of a gate that the project knows.
pub(crate) fn known() -> String {
    format!("backend = \"transactional\"\nupstream_secret = {SECRET:?}")
}

fn assert_paid_once(project: &Project, backend: &GunicornServer, url: &str, size: Size) -> anyhow::Result<()> {
    let report = storm(backend, url, size, &[])?;
    assert_eq!(report.verdict.judgement, "innocent", "{}", report.verdict.line);
    assert_eq!(report.executions, size.keys, "each key is one payment");
    let statuses = &report.totals.statuses;
    assert!(statuses.keys().all(|status| [201, 409].contains(status)), "{statuses:?}");
    assert_eq!(statuses.values().sum::<u64>(), size.requests(), "every repeat is answered: {statuses:?}");
    assert_eq!(report.totals.status_2xx, size.keys, "one first answer for each key");
    assert_eq!(project.query("SELECT count(*) FROM payments_payment")?, size.keys.to_string());
    assert_eq!(project.query(KEYS_NOT_PAID_ONCE)?, "0");
    Ok(())
}

/// How many records there are in scopes of the package, in scopes of the gate, and not completed.
fn records(project: &Project) -> anyhow::Result<String> {
    project.query(
        "SELECT count(*) FILTER (WHERE scope = 'python'), count(*) FILTER (WHERE scope <> 'python'), \
         count(*) FILTER (WHERE state <> 'completed') FROM oncegate.records",
    )
}

#[test]
fn the_right_form_pays_each_key_once_by_itself() -> anyhow::Result<()> {
    let (project, backend) = serve_example(&[])?;
    let size = Size::of(10, 50);
    assert_paid_once(&project, &backend, &backend.url(ONCE), size)?;
    assert_eq!(records(&project)?, format!("{}|0|0", size.keys));
    Ok(())
}

#[test]
fn behind_a_gate_that_it_does_not_know_the_right_form_keeps_records_of_its_own() -> anyhow::Result<()> {
    let (project, backend) = serve_example(&[])?;
    let gate = gate(&project, &backend, "backend = \"idempotent\"");
    let size = Size::of(10, 50);
    assert_paid_once(&project, &backend, &through(&gate, ONCE), size)?;
    assert_eq!(records(&project)?, format!("{keys}|{keys}|0", keys = size.keys));

    // A secret that the project does not have proves nothing to it: both guard, and the gate counts that it was alone.
    let gate = self::gate(&project, &backend, &known());
    let report = storm(&backend, &through(&gate, ONCE), Size { keys: 2, repeats: 20 }, &[])?;
    assert_eq!((&*report.verdict.judgement, report.executions), ("innocent", 2), "{}", report.verdict.line);
    assert_eq!(records(&project)?, format!("{keys}|{keys}|0", keys = size.keys + 2));
    let metrics = get(&gate.admin, "/metrics", "").body;
    assert!(metrics.contains("\noncegate_uncooperative_responses_total 2\n"), "{metrics}");
    Ok(())
}

#[test]
fn behind_a_gate_that_it_knows_the_right_form_completes_the_gates_records() -> anyhow::Result<()> {
    let project = Project::prepare()?;
    // The application owns nothing of the schema.
    project.query("CREATE ROLE clerk LOGIN PASSWORD 'clerk'")?;
    let clerk = [("DATABASE_USER", "clerk"), ("DATABASE_PASSWORD", "clerk"), ("ONCEGATE_SECRET", SECRET)];
    let backend = project.serve(&clerk)?;
    project.query("GRANT oncegate_app TO clerk")?;
    project.query("GRANT SELECT, INSERT ON payments_payment TO clerk")?;
    project.query("GRANT USAGE ON SEQUENCE payments_payment_id_seq TO clerk")?;
    let gate = gate(&project, &backend, &known());
    let size = Size::of(10, 50);
    assert_paid_once(&project, &backend, &through(&gate, ONCE), size)?;
    assert_eq!(records(&project)?, format!("0|{}|0", size.keys));
    // An owner would mean that the gate has completed it.
    let completed = "SELECT count(*) FROM oncegate.records WHERE backend = 'transactional' AND owner IS NULL";
    assert_eq!(project.query(completed)?, size.keys.to_string());
    Ok(())
}
