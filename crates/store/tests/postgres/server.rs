//! A PostgreSQL server of the test's own: a fresh cluster in a temporary directory.

use std::{
    env, fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::{fs::chown, process::CommandExt as _},
    path::PathBuf,
    process::{Command, Stdio},
};

use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// Where Debian and Ubuntu keep the programs: one directory per major version.
const PACKAGED: &str = "/usr/lib/postgresql";

/// Ports tried: somebody else may take a free one between our look and the server's start.
const PORTS_MAX: usize = 5;

/// A running server. Dropping it, also while a test panics, stops it.
pub(crate) struct Server {
    programs: PathBuf,
    /// User and group to run as when we are root, which PostgreSQL refuses to run as.
    owner: Option<(u32, u32)>,
    directory: TempDir,
    /// Random, so that no other server can answer in its place unnoticed.
    name: String,
    port: u16,
}

// === impl Server ===

impl Server {
    /// A server with an empty database and these settings.
    pub(crate) async fn start(settings: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("oncegate-postgres-").tempdir().unwrap();
        let name = uuid::Uuid::new_v4().to_string();
        let mut server = Self { programs: programs(), owner: owner(), directory, name, port: 0 };
        if let Some((user, group)) = server.owner {
            chown(server.directory.path(), Some(user), Some(group)).unwrap();
        }
        // Only an empty cluster that nobody needs after a power cut is not synced; the server itself syncs.
        let options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
        let made = server.program("initdb").args(options).arg("-D").arg(server.path("data")).output().unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        for _ in 0..PORTS_MAX {
            server.port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
            if server.starts(settings) {
                let answers: String = server.connect().await.query_one("SHOW cluster_name", &[]).await.unwrap().get(0);
                assert_eq!(answers, server.name, "another server answers on port {}", server.port);
                return server;
            }
        }
        panic!("no server could be started: {}", fs::read_to_string(server.path("log")).unwrap_or_default());
    }

    fn starts(&self, settings: &[&str]) -> bool {
        let mut options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -k {} -c cluster_name={} -c max_connections=400",
            self.port,
            self.directory.path().display(),
            self.name
        );
        for setting in settings {
            options += &format!(" -c {setting}");
        }
        let mut start = self.program("pg_ctl");
        start.args(["start", "-w", "-t", "60", "-o", &options, "-D"]).arg(self.path("data"));
        start.arg("-l").arg(self.path("log")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        start.status().unwrap().success()
    }

    /// A connection of the superuser's.
    pub(crate) async fn connect(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.address(), NoTls).await.unwrap();
        // Ends with its client.
        tokio::spawn(connection);
        client
    }

    /// Where a store finds it.
    pub(crate) fn address(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// One of PostgreSQL's programs, with no PG* variable of ours to mislead it.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.current_dir(self.directory.path());
        for (variable, _) in env::vars_os() {
            if variable.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(variable);
            }
        }
        if let Some((user, group)) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut stop = self.program("pg_ctl");
        stop.args(["stop", "-w", "-m", "immediate", "-D"]).arg(self.path("data"));
        // An error means that it does not run.
        let _ = stop.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.path("log")).unwrap_or_default();
            let last: Vec<_> = log.lines().rev().take(20).collect();
            eprintln!("the server's log ended with (latest first):\n{}", last.join("\n"));
        }
    }
}

/// The directory of the `initdb` on PATH, or else of the newest packaged version.
fn programs() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).find(|directory| directory.join("initdb").is_file());
    let version =
        |entry: fs::DirEntry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin")));
    let packaged = fs::read_dir(PACKAGED).into_iter().flatten().filter_map(|entry| version(entry.ok()?));
    let found = on_path.or_else(|| packaged.max().map(|(_, directory)| directory));
    found.expect("PostgreSQL is installed: apt-get install postgresql")
}

fn owner() -> Option<(u32, u32)> {
    let id = |option: &str| -> u32 {
        let output = Command::new("id").args([option, "postgres"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().expect("there is a user postgres")
    };
    rustix::process::geteuid().is_root().then(|| (id("-u"), id("-g")))
}
