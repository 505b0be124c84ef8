//! A PostgreSQL server of the test's own: a fresh cluster in a temporary directory.

use std::{
    env, fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use oncegate_store::postgres::Migrator;
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
    /// A server with the schema.
    pub(crate) async fn migrated() -> Self {
        let server = Self::start(&[]).await;
        assert_eq!(server.migrator().await.migrate().await.unwrap(), usize::try_from(Migrator::SCHEMA).unwrap());
        server
    }

    /// A server with an empty database and these settings.
    pub(crate) async fn start(settings: &[&str]) -> Self {
        let mut server = Self::in_a_directory();
        server.make_cluster();
        server.start_somewhere(settings).await;
        server
    }

    /// A server with the schema, whose clock can be moved.
    pub(crate) async fn with_movable_clock() -> Self {
        let mut server = Self::in_a_directory();
        server.set_clock("+0");
        server.make_cluster();
        server.start_somewhere(&[]).await;
        server.migrator().await.migrate().await.unwrap();
        server
    }

    /// Moves its clock so far from the real one, such as `+1h`, from the next look on.
    pub(crate) fn set_clock(&self, offset: &str) {
        let written = self.clock().with_extension("new");
        fs::write(&written, offset).unwrap();
        fs::rename(written, self.clock()).unwrap();
    }

    /// A standby of this server, which follows it.
    pub(crate) async fn standby(&self) -> Self {
        let mut standby = Self::in_a_directory();
        let (data, port) = (standby.data(), self.port.to_string());
        let copying = ["-D", &data, "-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-R", "-c", "fast", "--no-sync"];
        standby.run("pg_basebackup", &copying);
        standby.start_somewhere(&[]).await;
        standby
    }

    fn in_a_directory() -> Self {
        let directory = tempfile::Builder::new().prefix("oncegate-postgres-").tempdir().unwrap();
        let name = uuid::Uuid::new_v4().to_string();
        let server = Self { programs: programs(), owner: owner(), directory, name, port: 0 };
        if let Some((user, group)) = server.owner {
            chown(server.directory.path(), Some(user), Some(group)).unwrap();
        }
        server
    }

    async fn start_somewhere(&mut self, settings: &[&str]) {
        for _ in 0..PORTS_MAX {
            self.port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
            if self.try_start(settings) {
                let answers: String = self.connect().await.query_one("SHOW cluster_name", &[]).await.unwrap().get(0);
                assert_eq!(answers, self.name, "another server answers on port {}", self.port);
                return;
            }
        }
        panic!("no server could be started: {}", fs::read_to_string(self.log()).unwrap_or_default());
    }

    /// Makes a primary of a standby.
    pub(crate) fn promote(&self) {
        self.run("pg_ctl", &["promote", "-w", "-D", &self.data()]);
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn stop(&self) {
        let data = self.data();
        let mut stop = self.program("pg_ctl");
        stop.args(["stop", "-w", "-m", "immediate", "-D", &data]).stdout(Stdio::null()).stderr(Stdio::null());
        // An error means that it does not run.
        let _ = stop.status();
    }

    /// Starts it again, on the same port.
    pub(crate) fn start_again(&self, settings: &[&str]) {
        let log = || fs::read_to_string(self.log()).unwrap_or_default();
        assert!(self.try_start(settings), "the server does not start again: {}", log());
    }

    /// Copies a cluster that an earlier test has made, which takes a tenth of the time of making one.
    fn make_cluster(&self) {
        let data = self.data();
        let version = self.programs.to_str().unwrap().replace('/', "-");
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cluster{version}"));
        if kept.exists() && copy(&kept, Path::new(&data)) {
            return;
        }
        // Only an empty cluster that nobody needs after a power cut is not synced; the server itself syncs.
        self.run("initdb", &["-D", &data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
        let unfinished = kept.with_extension(&self.name);
        // Another test may have been faster.
        if !copy(Path::new(&data), &unfinished) || fs::rename(&unfinished, &kept).is_err() {
            let _ = fs::remove_dir_all(&unfinished);
        }
    }

    fn try_start(&self, settings: &[&str]) -> bool {
        let directory = self.directory.path().display();
        let mut options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -k {directory} -c cluster_name={} -c max_connections=400",
            self.port, self.name
        );
        for setting in settings {
            options += &format!(" -c {setting}");
        }
        let (data, log) = (self.data(), self.log());
        let mut start = self.program("pg_ctl");
        if self.clock().exists() {
            // Looked at each time; what only measures how long something takes stays as it is.
            start.env("LD_PRELOAD", faketime()).env("FAKETIME_TIMESTAMP_FILE", self.clock());
            start.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        start.args(["start", "-w", "-t", "60", "-D", &data, "-l", log.to_str().unwrap(), "-o", &options]);
        start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success()
    }

    /// A connection of the superuser's.
    pub(crate) async fn connect(&self) -> Client {
        self.connect_as("postgres").await
    }

    /// Where a store finds it.
    pub(crate) fn address(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A connection of somebody's.
    pub(crate) async fn connect_as(&self, user: &str) -> Client {
        self.connect_with(&format!("user={user} dbname=postgres")).await
    }

    /// A connection of the superuser's to another database.
    pub(crate) async fn connect_in(&self, database: &str) -> Client {
        self.connect_with(&format!("user=postgres dbname={database}")).await
    }

    async fn connect_with(&self, who: &str) -> Client {
        let address = format!("host=127.0.0.1 port={} {who}", self.port);
        let (client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
        // Ends with its client.
        tokio::spawn(connection);
        client
    }

    /// What brings its schema up to date.
    pub(crate) async fn migrator(&self) -> Migrator {
        self.migrator_as("postgres").await
    }

    /// The same, by somebody.
    pub(crate) async fn migrator_as(&self, user: &str) -> Migrator {
        let address = format!("postgres://{user}@127.0.0.1:{}/postgres", self.port);
        Migrator::connect(&address.parse().unwrap()).await.unwrap()
    }

    /// `psql`, connected.
    pub(crate) fn psql(&self) -> Command {
        let mut psql = self.program("psql");
        let port = self.port.to_string();
        psql.args(["--no-psqlrc", "-h", "127.0.0.1", "-p", &port, "-U", "postgres", "-d", "postgres"]);
        psql
    }

    fn run(&self, name: &str, arguments: &[&str]) {
        let output = self.program(name).args(arguments).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
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

    fn data(&self) -> String {
        self.directory.path().join("data").to_str().unwrap().to_owned()
    }

    /// What the server's clock is moved by, if it can be.
    fn clock(&self) -> PathBuf {
        self.directory.path().join("clock")
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.log()).unwrap_or_default();
            let last: Vec<_> = log.lines().rev().take(20).collect();
            eprintln!("the server's log ended with (latest first):\n{}", last.join("\n"));
        }
    }
}

/// The directory of the newest packaged version, or of the `initdb` on PATH.
fn programs() -> PathBuf {
    let version =
        |entry: fs::DirEntry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin")));
    let packaged = fs::read_dir(PACKAGED).into_iter().flatten().filter_map(|entry| version(entry.ok()?));
    let path = env::var_os("PATH").unwrap_or_default();
    // Links are followed, since only the directory they lead to has all the programs.
    let linked = |directory: PathBuf| Some(directory.join("initdb").canonicalize().ok()?.parent()?.to_owned());
    let mut on_path = env::split_paths(&path).filter_map(linked).filter(|directory| directory.join("psql").is_file());
    let found = on_path.next().or_else(|| packaged.max().map(|(_, directory)| directory));
    found.expect("PostgreSQL is installed: apt-get install postgresql")
}

/// What moves the clock of one process.
fn faketime() -> PathBuf {
    let libraries = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut found = libraries.map(|library| library.path().join("faketime/libfaketime.so.1"));
    found.find(|library| library.is_file()).expect("libfaketime is installed: apt-get install libfaketime")
}

/// Copies a directory with the owners of its files.
fn copy(from: &Path, to: &Path) -> bool {
    Command::new("cp").arg("-a").args([from, to]).stderr(Stdio::null()).status().unwrap().success()
}

/// User and group of PostgreSQL's files, if they are not ours.
pub(crate) fn owner() -> Option<(u32, u32)> {
    let id = |arguments: &[&str]| -> u32 {
        let output = Command::new("id").args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().expect("there is a user postgres")
    };
    let is_root = id(&["-u"]) == 0;
    is_root.then(|| (id(&["-u", "postgres"]), id(&["-g", "postgres"])))
}

/// A folder of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}
