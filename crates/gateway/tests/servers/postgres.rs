//! A PostgreSQL server of the test's own: a fresh cluster in a temporary directory.
//!
//! It does not wait for the disk, which a busy machine makes slow: tests kill processes, and what these have written stays.

use std::env;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use rustix::process::{Signal, geteuid};
use tempfile::TempDir;
use uuid::Uuid;

use super::process::ServerProcess;
use super::program::run;

/// The superuser that the cluster is made with.
const USER: &str = "postgres";

/// The database that every cluster has from the beginning.
const MAINTENANCE: &str = "postgres";

/// Ports tried: somebody else may take a free one between our look and the server's start.
const PORTS_MAX: usize = 5;

/// Beside the data: the superuser's password.
const PASSWORD_FILE: &str = "password";

/// Where Debian and Ubuntu put the programs that they keep off PATH: one directory per major version.
const PACKAGED: &str = "/usr/lib/postgresql";

/// A running server on a loopback port and on a socket in a directory of its own.
pub(crate) struct PostgresServer {
    // Before the directory, since fields are dropped in this order: the server must not lose its files while it runs.
    // `None` while it is stopped.
    process: Option<ServerProcess>,
    cluster: Cluster,
    port: u16,
}

/// The files of a cluster, and how its programs are run.
struct Cluster {
    /// Where PostgreSQL's programs are.
    programs: PathBuf,
    owner: Option<Owner>,
    directory: TempDir,
    password: String,
    /// Random, so that no other server can answer in its place unnoticed.
    name: String,
    /// Whether a commit waits until the disk has it.
    is_durable: bool,
}

/// Whom to run the server as when we are root, which PostgreSQL refuses to run as.
#[derive(Clone, Copy)]
struct Owner {
    user: u32,
    group: u32,
}

impl PostgresServer {
    /// Starts a server on an empty cluster and asks who answers.
    ///
    /// # Errors
    ///
    /// PostgreSQL is not installed (the text says what to install), does not start, or another server answers.
    pub(crate) fn start() -> anyhow::Result<Self> {
        Self::furnished("empty", |_| Ok(()))
    }

    /// The same, durable as in production.
    ///
    /// # Errors
    ///
    /// As above.
    pub(crate) fn start_durable() -> anyhow::Result<Self> {
        let mut server = Self::start()?;
        server.stop();
        server.cluster.is_durable = true;
        server.start_again()?;
        Ok(server)
    }

    /// The same as [`start`](Self::start), with what `furnish` puts into it. That is done once and kept under the target
    /// directory by this name, to be copied: making a cluster takes ten times as long.
    ///
    /// # Errors
    ///
    /// As above, or `furnish` fails.
    pub(crate) fn furnished(name: &str, furnish: impl FnOnce(&Self) -> anyhow::Result<()>) -> anyhow::Result<Self> {
        let programs = find_programs()?;
        let version = programs.display().to_string().replace('/', "-");
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("postgres{version}-{name}"));
        let lock = File::create(kept.with_extension("lock"))?;
        lock.lock()?;
        if !kept.exists() {
            let mut first = Self::serve(Cluster::create(programs.clone())?)?;
            furnish(&first)?;
            // In good order: what is copied has nothing to recover.
            first.process.take().expect("it was started").stop_by(Signal::INT);
            first.cluster.keep(&kept)?;
        }
        drop(lock);
        Self::serve(Cluster::copied(programs, &kept)?)
    }

    fn serve(cluster: Cluster) -> anyhow::Result<Self> {
        let (process, port) = cluster.start()?;
        let server = Self { process: Some(process), cluster, port };
        let answers = server.execute(MAINTENANCE, "SHOW cluster_name")?;
        ensure!(
            answers == server.cluster.name,
            "port {port} is served by the cluster {answers:?}, ours is {:?}",
            server.cluster.name
        );
        Ok(server)
    }

    /// Ends it at once, as a crash would (`immediate`), and waits for its end.
    pub(crate) fn stop(&mut self) {
        self.process = None;
    }

    /// Starts it again, on the same files and the same port, and waits until it has recovered.
    ///
    /// # Errors
    ///
    /// It does not start; the text has its log.
    pub(crate) fn start_again(&mut self) -> anyhow::Result<()> {
        self.process = Some(self.cluster.start_on(self.port)?);
        Ok(())
    }

    /// Creates an empty database.
    ///
    /// # Errors
    ///
    /// The server refuses; the text has its words.
    pub(crate) fn create_database(&self, database: &str) -> anyhow::Result<()> {
        self.execute(MAINTENANCE, &format!("CREATE DATABASE {database}")).map(drop)
    }

    /// Runs one statement and returns what `psql` printed, unaligned and without headings.
    ///
    /// # Errors
    ///
    /// The statement fails; the text has the server's words.
    pub(crate) fn execute(&self, database: &str, statement: &str) -> anyhow::Result<String> {
        let mut psql = self.cluster.program("psql");
        psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"])
            .args(["--host=127.0.0.1", &format!("--port={}", self.port), &format!("--username={USER}")])
            .args([&format!("--dbname={database}"), &format!("--command={statement}")])
            .env("PGPASSWORD", self.password());
        Ok(run(psql)?.trim_end().to_owned())
    }

    /// The port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The superuser's name.
    pub(crate) fn user(&self) -> &'static str {
        USER
    }

    /// The superuser's password, made for this cluster and its copies.
    pub(crate) fn password(&self) -> &str {
        &self.cluster.password
    }
}

// === impl Cluster ===

impl Cluster {
    /// A new one.
    fn create(programs: PathBuf) -> anyhow::Result<Self> {
        let cluster = Self::in_a_directory(programs, Uuid::new_v4().to_string())?;
        let password_file = cluster.password_file();
        fs::write(&password_file, &cluster.password)?;
        if let Some(Owner { user, group }) = cluster.owner {
            chown(&password_file, Some(user), Some(group))?;
        }
        let mut initdb = cluster.program("initdb");
        initdb
            .arg("--pgdata")
            .arg(cluster.data())
            .arg("--pwfile")
            .arg(&password_file)
            .args(["--auth=scram-sha-256", &format!("--username={USER}"), "--encoding=UTF8", "--locale=C"])
            .args(["--no-sync", "--no-instructions"]);
        run(initdb)?;
        Ok(cluster)
    }

    /// A copy of one that was kept.
    fn copied(programs: PathBuf, kept: &Path) -> anyhow::Result<Self> {
        let cluster = Self::in_a_directory(programs, fs::read_to_string(kept.join(PASSWORD_FILE))?)?;
        copy(&[&kept.join("data")], cluster.path())?;
        Ok(cluster)
    }

    /// Keeps its files, whole or not at all.
    fn keep(&self, kept: &Path) -> anyhow::Result<()> {
        let unfinished = kept.with_extension(&self.name);
        fs::create_dir(&unfinished)?;
        copy(&[&self.data(), &self.password_file()], &unfinished)?;
        Ok(fs::rename(&unfinished, kept)?)
    }

    fn in_a_directory(programs: PathBuf, password: String) -> anyhow::Result<Self> {
        let owner = if geteuid().is_root() { Some(Owner::of_postgres()?) } else { None };
        let directory = tempfile::Builder::new().prefix("oncegate-postgres-").tempdir()?;
        if let Some(Owner { user, group }) = owner {
            chown(directory.path(), Some(user), Some(group))?;
        }
        Ok(Self { programs, owner, directory, password, name: Uuid::new_v4().to_string(), is_durable: false })
    }

    /// Starts the server on a free port.
    fn start(&self) -> anyhow::Result<(ServerProcess, u16)> {
        let mut refused = None;
        for _ in 0..PORTS_MAX {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
            match self.start_on(port) {
                Ok(process) => return Ok((process, port)),
                Err(error) if format!("{error:#}").contains("Address already in use") => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(refused.expect("every try was refused, and there was one"))
    }

    fn start_on(&self, port: u16) -> anyhow::Result<ServerProcess> {
        let mut postgres = self.program("postgres");
        postgres.arg("-D").arg(self.data());
        for setting in [
            "listen_addresses=127.0.0.1",
            &format!("port={port}"),
            &format!("unix_socket_directories={}", self.path().display()),
            &format!("cluster_name={}", self.name),
            if self.is_durable { "fsync=on" } else { "fsync=off" },
        ] {
            postgres.args(["-c", setting]);
        }
        // SIGQUIT ends it at once, without the checkpoint that a cluster about to be deleted does not need.
        let ready = |line: &str| line.contains("database system is ready to accept connections").then_some(());
        ServerProcess::start("PostgreSQL", postgres, Signal::QUIT, ready).map(|(process, ())| process)
    }

    /// One of PostgreSQL's programs, as the owner of the cluster and with no PG* variable of ours to mislead it.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        // The owner may not be allowed to enter the present directory.
        command.current_dir(self.path());
        for (variable, _) in env::vars_os() {
            if variable.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(variable);
            }
        }
        if let Some(Owner { user, group }) = self.owner {
            command.uid(user).gid(group);
        }
        command
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    fn password_file(&self) -> PathBuf {
        self.path().join(PASSWORD_FILE)
    }
}

/// Copies files and folders, with their owners, into a folder.
fn copy(from: &[&Path], to: &Path) -> anyhow::Result<()> {
    let mut copy = Command::new("cp");
    copy.arg("-a").args(from).arg(to);
    run(copy).map(drop)
}

// === impl Owner ===

impl Owner {
    fn of_postgres() -> anyhow::Result<Self> {
        let id = |option| -> anyhow::Result<u32> {
            let mut id = Command::new("id");
            id.args([option, "postgres"]);
            let printed = run(id).context("PostgreSQL refuses to run as root and there is no user postgres")?;
            printed.trim_end().parse().with_context(|| format!("id {option} postgres printed {printed:?}"))
        };
        Ok(Self { user: id("-u")?, group: id("-g")? })
    }
}

/// Finds the directory of PostgreSQL's programs: that of the `initdb` on PATH, else the newest packaged version.
fn find_programs() -> anyhow::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).filter_map(|directory| {
        // Links are followed, since only the directory they lead to has all the programs.
        let initdb = directory.join("initdb").canonicalize().ok()?;
        Some(initdb.parent()?.to_owned())
    });
    let mut packaged: Vec<(u32, PathBuf)> = fs::read_dir(PACKAGED)
        .into_iter()
        .flatten()
        .filter_map(|version| {
            let version = version.ok()?;
            Some((version.file_name().to_str()?.parse().ok()?, version.path().join("bin")))
        })
        .collect();
    packaged.sort();
    let newest_first = packaged.into_iter().rev().map(|(_, directory)| directory);
    on_path
        .chain(newest_first)
        .find(|directory| ["initdb", "postgres", "psql"].iter().all(|program| directory.join(program).is_file()))
        .with_context(|| {
            format!(
                "PostgreSQL (initdb, postgres, psql) is neither on PATH nor in {PACKAGED}: apt-get install postgresql"
            )
        })
}
