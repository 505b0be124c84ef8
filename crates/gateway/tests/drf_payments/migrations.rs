//! One schema, whoever makes it: Django's `migrate`, `oncegate migrate`, or `oncegate serve` at its start.

use crate::{
    once::{ONCE, SECRET, gate, known},
    process::{Gate, run, text},
    servers::gunicorn::Project,
    storm::{Size, storm, through},
};

/// What was noted of the migrations.
const NOTED: &str =
    "SELECT string_agg(concat_ws(' ', number, name, checksum), ', ' ORDER BY number) FROM oncegate.migrations";

fn migrate(project: &Project) -> String {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), &["migrate", "--store", &project.store()], &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn whoever_migrates_second_finds_nothing_left_to_do() -> anyhow::Result<()> {
    let project = Project::prepare()?;
    let size = Size { keys: 2, repeats: 20 };
    let works = || -> anyhow::Result<String> {
        let backend = project.serve(&[("ONCEGATE_SECRET", SECRET)])?;
        let gate = gate(&project, &backend, &known());
        for url in [backend.url(ONCE), through(&gate, ONCE)] {
            let report = storm(&backend, &url, size, &[])?;
            assert_eq!(report.verdict.judgement, "innocent", "{url}: {}", report.verdict.line);
        }
        project.query(NOTED)
    };

    // Django first, then the command, then a gate at its start.
    project.empty_database()?;
    project.manage("migrate")?;
    let by_django = project.query(NOTED)?;
    assert!(migrate(&project).contains("nothing was left to do"));
    assert_eq!(works()?, by_django);

    // The command first.
    project.empty_database()?;
    assert!(migrate(&project).contains("migrations"));
    assert_eq!(project.query(NOTED)?, by_django);
    project.manage("migrate")?;
    assert_eq!(works()?, by_django);

    // A gate first, on a database that has nothing.
    project.empty_database()?;
    let directory = tempfile::tempdir().unwrap();
    let arguments = ["--store", &project.store()];
    drop(Gate::start_in(directory, "http://127.0.0.1:9", &arguments, &[]));
    assert_eq!(project.query(NOTED)?, by_django);
    project.manage("migrate")?;
    assert_eq!(works()?, by_django);
    Ok(())
}
