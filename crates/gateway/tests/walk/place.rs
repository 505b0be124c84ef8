//! Where a page is walked: an empty folder that looks like a checkout, on a machine of its own if that can be had.

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::{
    machine::{self, Machine},
    page::repository,
};

/// Stands for `cargo`: what would be built and run is run, the words stay the reader's.
const CARGO: &str = r#"#!/bin/sh
[ "$1 $2 $3" = "run --release --" ] || { echo "the walk does not build: cargo $*" >&2; exit 64; }
shift 3
exec oncegate "$@"
"#;

/// Stands for systemd with the unit of `docs/operating.md`: sends what its `ExecReload` sends.
const SYSTEMCTL: &str = r#"#!/bin/sh
[ "$*" = "reload oncegate" ] || { echo "no systemd here: systemctl $*" >&2; exit 64; }
kill -HUP "$(cat "${0%/*}/main.pid")"
"#;

pub(crate) struct Place {
    folder: TempDir,
    machine: Machine,
    /// The page's directory in the copy of the repository.
    directory: PathBuf,
    variables: Vec<(&'static str, String)>,
}

// === impl Place ===

impl Place {
    /// The place for this page; `None` when its test was already run, by another process.
    pub(crate) fn enter(page: &str) -> Option<Self> {
        // PostgreSQL does not run as root, and a machine of its own that root did not make has no other users.
        let needs_users = page == "examples/drf-payments/README.md";
        let machine = machine::enter(needs_users)?;
        machine.furnish();
        let folder = tempfile::tempdir().unwrap();
        let programs = folder.path().join("programs");
        fs::create_dir(&programs).unwrap();
        symlink(env!("CARGO_BIN_EXE_oncegate"), programs.join("oncegate")).unwrap();
        for (name, script) in [("cargo", CARGO), ("systemctl", SYSTEMCTL)] {
            fs::write(programs.join(name), script).unwrap();
            fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let checkout = folder.path().join("checkout");
        copy(&repository(), &checkout);
        // A reader of an example stands in its directory, a reader of any other page in the root.
        let is_example = page.starts_with("examples/");
        let directory = if is_example { checkout.join(page).parent().unwrap().to_owned() } else { checkout };
        // Who the operator of `docs/records.md` is.
        let variables = vec![("USER", "ada".to_owned())];
        Some(Self { folder, machine, directory, variables })
    }

    /// The folder in which commands run.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Sets a variable for all programs that are started from now on.
    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.variables.push((name, value.to_owned()));
    }

    /// A program that sees nothing of this test but the place.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut path = vec![self.folder.path().join("programs")];
        path.extend(env::split_paths(&env::var_os("PATH").unwrap()));
        let mut command = Command::new(program);
        command.current_dir(&self.directory).stdin(Stdio::null());
        for (name, _) in env::vars_os() {
            if ["ONCEGATE", "PG", "PIP_"].iter().any(|ours| name.as_encoded_bytes().starts_with(ours.as_bytes())) {
                command.env_remove(name);
            }
        }
        command
            .env("PATH", env::join_paths(path).unwrap())
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Notes the process that systemd would have started.
    pub(crate) fn note_main_process(&self, id: u32) {
        fs::write(self.folder.path().join("programs/main.pid"), id.to_string()).unwrap();
    }

    /// The words as they can be run here: unchanged on a machine of its own.
    pub(crate) fn words(&self, text: &str) -> String {
        self.machine.words(text)
    }

    /// A file of the machine, by its absolute name.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(self.machine.words(name))
    }
}

/// Copies what a reader has: neither what is built nor what is hidden.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (name, copied) = (entry.file_name(), to.join(entry.file_name()));
        if name == "target" || name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            symlink(fs::read_link(entry.path()).unwrap(), copied).unwrap();
        } else if kind.is_dir() {
            copy(&entry.path(), &copied);
        } else {
            fs::copy(entry.path(), copied).unwrap();
        }
    }
}
