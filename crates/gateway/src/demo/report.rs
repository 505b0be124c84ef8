//! The report: a table and lines to play with for people, or one JSON object for programs.

use std::{io, process::ExitCode};

use anyhow::Context as _;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, Table, Width, presets};
use serde_json::json;

use super::{
    gate::Addresses,
    judge::{self, Line},
    shown::Shown,
    stage::Stage,
};

/// With the lines between them, 80 columns.
const WIDTHS: [u16; 5] = [3, 33, 25, 10, 3];

/// Everything that was shown, judged, and where it can be played with.
#[derive(Debug)]
pub(super) struct Report {
    shown: Shown,
    lines: Vec<Line>,
    service: String,
    at: Addresses,
    store: String,
    program: String,
    is_kept: bool,
}

// === impl Report ===

impl Report {
    pub(super) fn new(stage: &Stage, shown: Shown, is_kept: bool) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("the path of this program cannot be found")?;
        Ok(Self {
            lines: judge::judge(&shown),
            shown,
            service: format!("http://{}", stage.service()),
            at: stage.gate()?,
            store: stage.store(),
            program: program.display().to_string(),
            is_kept,
        })
    }

    /// 0 if everything is true.
    pub(super) fn exit_code(&self) -> ExitCode {
        if self.is_true() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    pub(super) fn print(&self, is_json: bool) -> io::Result<()> {
        crate::print(&if is_json { self.json() } else { self.for_people() })
    }

    fn is_true(&self) -> bool {
        self.lines.iter().all(|line| line.is_true)
    }

    fn json(&self) -> String {
        let mut object = json!(self.shown);
        object["is_true"] = json!(self.is_true());
        let is_false = self.lines.iter().filter(|line| !line.is_true);
        object["faults"] = is_false.map(|line| format!("{}: expected {}", line.what, line.expected)).collect();
        object["service"] = json!(self.service);
        object["gate_address"] = json!(format!("http://{}", self.at.gate));
        object["admin"] = json!(format!("http://{}", self.at.admin));
        object["store"] = json!(self.store);
        format!("{object}\n")
    }

    fn for_people(&self) -> String {
        let verdict = match self.lines.iter().filter(|line| !line.is_true).count() {
            0 => "All of this is true: the payments are what the service itself counted.".to_owned(),
            1 => "✗ One line is not true.".to_owned(),
            count => format!("✗ {count} lines are not true."),
        };
        format!("{}\n{verdict}\n\n{}", table(&self.lines), self.play())
    }

    /// What can be tried by hand. Lines to type are indented by four; nothing else is.
    fn play(&self) -> String {
        let program = quoted(&self.program);
        let lines = |gate: &str, service: &str, store: &str| {
            let lines = PLAY.replace("GATE", gate).replace("SERVICE", service);
            lines.replace("PROGRAM", &program).replace("STORE", store)
        };
        if !self.is_kept {
            let title =
                format!("To play with it: {program} demo --keep\nleaves both running and fills in their addresses:");
            return format!("{title}\n\n{}", lines("http://ADDRESS", "http://ADDRESS", "sqlite://FILE"));
        }
        let lines = lines(&format!("http://{}", self.at.gate), &self.service, &quoted(&self.store));
        let admin = format!("Metrics and probes: http://{}/", self.at.admin);
        format!("Play with it, until Ctrl-C ends it:\n\n{lines}\n{admin}\n")
    }
}

/// Works in every POSIX shell as it stands. No comments behind commands: zsh takes them for arguments.
const PLAY: &str = r#"    gate=GATE
    service=SERVICE
    pay() {
      curl -s -w '%{http_code}\n' "$1/api/payments" -H "Idempotency-Key: $2" \
        -H 'Content-Type: application/json' -d "{\"amount\": $3}" -H "${4-}"
    }
  Two repeats at once, one more, and one with another amount: 1 payment
    (pay $gate K1 100 & pay $gate K1 100 & wait)
    pay $gate K1 100
    pay $gate K1 200
    curl -s "$service/count?key=K1"
  The same straight to the service: 2 payments
    (pay $service K2 100 & pay $service K2 100 & wait)
    curl -s "$service/count?key=K2"
  It charges and hangs up, and a repeat is told that nobody knows: 1 payment
    pay $gate K3 100 'Demo-Hang-Up: yes'
    pay $gate K3 100
    curl -s "$service/count?key=K3"
  What an operator sees, and can resolve
    PROGRAM records list --state unknown \
      --store STORE
"#;

fn table(lines: &[Line]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_header(["", "what happens", "what is answered", "payments", ""]);
    for line in lines {
        table.add_row(row(line));
    }
    for (column, width) in table.column_iter_mut().zip(WIDTHS) {
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
    }
    table
}

fn row(line: &Line) -> [Cell; 5] {
    let answers = match line.is_true {
        true => line.answers.clone(),
        false => format!("{}\nexpected: {}", line.answers, line.expected).trim_start().to_owned(),
    };
    [
        Cell::new(line.number.map(|number| number.to_string()).unwrap_or_default()),
        Cell::new(&line.what),
        Cell::new(answers),
        Cell::new(&line.payments).set_alignment(CellAlignment::Right),
        Cell::new(if line.is_true { "✓" } else { "✗" }),
    ]
}

/// A word for the shell.
fn quoted(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-:=+,@%".contains(&byte);
    match word.bytes().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(shown: &Shown) -> String {
        table(&judge::judge(shown)).to_string()
    }

    #[test]
    fn what_is_not_true_is_marked_and_says_what_was_expected() {
        let mut shown = Shown::when_all_is_well();
        assert!(!printed(&shown).contains('✗'));
        shown.mismatch.status = 409;
        let printed = printed(&shown);
        let marked: Vec<_> = printed.lines().filter(|line| line.contains('✗')).collect();
        assert!(matches!(marked[..], [line] if line.contains("another amount")), "{printed}");
        assert!(printed.contains("expected: 422"), "{printed}");
    }

    #[test]
    fn the_table_fits_80_columns() {
        let mut shown = Shown::when_all_is_well();
        for repeat in [&mut shown.restart, &mut shown.unknown.resolved] {
            repeat.same_answer = false;
        }
        shown.gate.replayed_differently = 1;
        for shown in [Shown::when_all_is_well(), shown] {
            let printed = printed(&shown);
            assert!(printed.lines().all(|line| line.chars().count() == 80), "{printed}");
        }
    }

    #[test]
    fn words_for_the_shell_are_quoted_where_they_must_be() {
        assert_eq!(quoted("sqlite:///a/b-1.db"), "sqlite:///a/b-1.db");
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
    }
}
