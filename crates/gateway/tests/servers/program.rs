//! A program that is run to its end.

use std::process::{Command, Output};

use anyhow::{Context, bail};

/// Runs a program to its end and returns what it printed on standard output.
///
/// # Errors
///
/// It cannot be started or fails; the text has all that it printed.
pub(crate) fn run(mut command: Command) -> anyhow::Result<String> {
    let Output { status, stdout, stderr } = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let stdout = String::from_utf8_lossy(&stdout);
    if !status.success() {
        bail!("{command:?} failed with {status}:\n{stdout}{}", String::from_utf8_lossy(&stderr));
    }
    Ok(stdout.into_owned())
}
