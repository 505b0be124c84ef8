//! The machine under a walk.
//!
//! Pages speak of ports 8000, 8080, 8081 and 6379 and of files in `/etc/oncegate`, `/run/secrets` and `/var/lib/oncegate`. So a
//! test that walks a page is run once more, in a network and a file system of its own, where all of these are free.
//! Where that is forbidden, walks take turns, fail if a port is taken, and put the files elsewhere.

use std::{
    env,
    fs::{self, File},
    net::TcpListener,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use tempfile::TempDir;

use crate::django;

/// Says to the test on which machine it is run once more: [`OWN`] or [`SHARED`]. What the test starts does not see it.
const INSIDE: &str = "ONCEGATE_WALK_INSIDE";

const OWN: &str = "own";
const SHARED: &str = "shared";

/// Directories that pages name, beside the working directory.
const DIRECTORIES: [&str; 4] = ["/etc/oncegate", "/run/secrets", "/var/lib/oncegate", django::SOCKETS];

/// Brings up loopback, and makes the directories without changing the real ones: `/etc` becomes a view of itself that
/// can be written to. `ip` is not everywhere, Python is needed anyway.
const SET_UP: &str = r#"set -eu
python3 -c '
import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh22x", b"lo", 65))'
mount -t tmpfs tmpfs /var/lib
mount -t tmpfs tmpfs /run
mkdir -p /run/real-etc /run/view-of-etc /run/secrets /var/lib/oncegate
mount --rbind /etc /run/real-etc
for entry in /run/real-etc/* /run/real-etc/.[!.]*; do
  [ ! -e "$entry" ] || ln -s "$entry" /run/view-of-etc/
done
rm -f /run/view-of-etc/oncegate
mkdir /run/view-of-etc/oncegate
mount --bind /run/view-of-etc /etc
# A virtual environment is thousands of files; in memory they cost nothing, and vanish with the machine.
mkdir -m 1777 /run/temporary
export TMPDIR=/run/temporary
exec "$@"
"#;

#[derive(Debug)]
pub(crate) enum Machine {
    /// Nobody else sees it.
    Own,
    /// The real one: the directories are in here, and nobody else walks meanwhile.
    Shared(TempDir),
}

/// Whether this process walks, rather than starting one that does.
pub(crate) fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// `None` when the test has been run, by a process of its own: whatever it leaves running ends with that.
pub(crate) fn enter(needs_users: bool) -> Option<Machine> {
    match env::var(INSIDE).as_deref() {
        Ok(OWN) => return Some(Machine::Own),
        Ok(_) => return Some(Machine::shared()),
        Err(_) => {}
    }
    let test = thread::current().name().expect("a test's thread has its name").to_owned();
    let this = env::current_exe().unwrap();
    let mut inside = match isolation(needs_users) {
        Some(options) => {
            let mut inside = Command::new("unshare");
            inside.args(options).args(["sh", "-c", SET_UP, "walk"]).arg(this).env(INSIDE, OWN);
            inside
        }
        None => {
            let mut inside = Command::new(this);
            inside.env(INSIDE, SHARED);
            inside
        }
    };
    inside.args([&test, "--exact", "--nocapture", "--test-threads=1"]).stdin(Stdio::null());
    let output = inside.output().unwrap();
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && printed.contains("1 passed"), "in a process of its own:\n{printed}{said}");
    None
}

/// The options of `unshare` with which all of [`SET_UP`] is allowed, if it is.
fn isolation(needs_users: bool) -> Option<&'static [&'static str]> {
    // Only root needs no user namespace, and keeps all users. Some systems forbid one or the other.
    let options: [&[&str]; 2] = [&["--net", "--mount"], &["--map-root-user", "--net", "--mount"]];
    let options = options.into_iter().take(if needs_users { 1 } else { 2 });
    options.into_iter().find(|options| {
        let mut trial = Command::new("unshare");
        trial.args(*options).args(["sh", "-c", SET_UP, "walk", "true"]);
        let trial = trial.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        trial.is_ok_and(|status| status.success())
    })
}

// === impl Machine ===

impl Machine {
    fn shared() -> Self {
        // Held until the process has ended, and with it all that listens.
        let lock = Box::leak(Box::new(File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("walk.lock")).unwrap()));
        lock.lock().unwrap();
        for port in [8000, 8080, 8081, 6379] {
            let taken = TcpListener::bind(("127.0.0.1", port)).err();
            assert!(taken.is_none(), "the pages need port {port}, and no network of their own can be had: {taken:?}");
        }
        Self::Shared(tempfile::tempdir().unwrap())
    }

    /// Makes the files that the pages' configurations name.
    pub(crate) fn furnish(&self) {
        for directory in DIRECTORIES {
            fs::create_dir_all(self.words(directory)).unwrap();
        }
        let secret = "0123456789abcdef0123456789abcdef";
        let database = "postgres://oncegate:hunter2@db.internal/shop";
        for (name, content) in [
            ("oncegate-token", secret),
            ("oncegate-2026-11", secret),
            ("oncegate-upstream", secret),
            ("oncegate-store", database),
        ] {
            fs::write(self.words(&format!("/run/secrets/{name}")), format!("{content}\n")).unwrap();
        }
    }

    /// The words with the directories where they are.
    pub(crate) fn words(&self, text: &str) -> String {
        let Self::Shared(root) = self else { return text.to_owned() };
        DIRECTORIES.iter().fold(text.to_owned(), |text, directory| {
            text.replace(directory, &format!("{}{directory}", root.path().display()))
        })
    }
}
