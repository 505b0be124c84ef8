//! The commands of a block.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use crate::elsewhere::EXIT_CODES;

/// What says that a command which goes on running is ready for the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    /// It prints a line with these words.
    Says(&'static str),
    /// Somebody accepts connections there.
    Accepts(&'static str),
}

/// Splits a text into commands, as a shell would: a command may have many lines.
pub(crate) fn split(text: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut command = String::new();
    for line in text.lines() {
        command += &format!("{line}\n");
        if is_whole(&command) {
            commands.push(command.trim().to_owned());
            command.clear();
        }
    }
    assert!(command.is_empty(), "this command has no end:\n{command}");
    commands.retain(|command| !command.is_empty());
    commands
}

/// Asks the shell itself. A here-document without its end is only a warning to it.
fn is_whole(command: &str) -> bool {
    let mut shell = Command::new("bash");
    shell.args(["--norc", "-n"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    shell.stdin.take().unwrap().write_all(command.as_bytes()).unwrap();
    let output = shell.wait_with_output().unwrap();
    output.status.success() && output.stderr.is_empty() && !command.trim_end().ends_with('\\')
}

/// The command without the comment behind it.
pub(crate) fn words(command: &str) -> &str {
    command.split_once("  #").map_or(command, |(words, _)| words).trim_end()
}

/// A command that goes on running is started, and stopped at the end of its page.
pub(crate) fn goes_on(command: &str) -> Option<Ready> {
    let command = program(command);
    if command.starts_with("oncegate serve") && !command.contains("--print-config") {
        Some(Ready::Says("listening on http://"))
    } else if command.starts_with("oncegate demo --keep") {
        Some(Ready::Says("Metrics and probes: "))
    } else if ["python3 payments.py", "python3 likes.py", ".venv/bin/gunicorn"].contains(&&*command) {
        Some(Ready::Accepts("127.0.0.1:8000"))
    } else if command.starts_with("redis-server") {
        Some(Ready::Accepts("127.0.0.1:6379"))
    } else {
        None
    }
}

/// The exit code that its page promises.
pub(crate) fn exit_code(command: &str) -> i32 {
    let command = program(command);
    let promised =
        EXIT_CODES.iter().find(|(beginning, word, _)| command.starts_with(beginning) && command.contains(word));
    promised.map_or(0, |(.., code)| *code)
}

/// `cargo run` runs the same program.
fn program(command: &str) -> String {
    command.replacen("cargo run --release -- ", "oncegate ", 1)
}

#[test]
fn a_command_may_have_many_lines() {
    let text = "cat > a <<'E'\nb\n\nE\nrun \\\n  it\n\nf() {\n  (x & wait)\n}\nf 1  # one\n";
    let commands = split(text);
    assert_eq!(commands, ["cat > a <<'E'\nb\n\nE", "run \\\n  it", "f() {\n  (x & wait)\n}", "f 1  # one"]);
    assert_eq!(words(&commands[3]), "f 1");
}
