//! Commands of this very binary.

use std::{path::Path, process::Stdio};

use anyhow::Context as _;
use tokio::process::Command;

/// An `oncegate` that sees no configuration but its flags, and dies with the value that it becomes.
pub(super) fn oncegate(directory: &Path) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("the path of this program cannot be found")?);
    // A group of its own: Ctrl-C is for the demo, which then stops it in order.
    command.current_dir(directory).stdin(Stdio::null()).process_group(0).kill_on_drop(true);
    for (variable, _) in std::env::vars_os() {
        if variable.as_encoded_bytes().starts_with(b"ONCEGATE") {
            command.env_remove(variable);
        }
    }
    Ok(command)
}
