//! A PostgreSQL of the measurement's own: a fresh cluster in a temporary folder, as durable as any.

use std::{
    env, fs,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::{MetadataExt as _, chown},
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, bail, ensure};
use oncegate_store::postgres::{Address, yardstick::Server};
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::process::Command;

use crate::bench::process::Process;

/// Where Debian and Ubuntu keep the programs: one folder per major version.
const PACKAGED: &str = "/usr/lib/postgresql";

/// Ports tried: somebody else may take a free one between our look and the server's start.
const PORTS_MAX: usize = 5;

/// What it says when it can be used. It is told to write nothing before.
const ANNOUNCEMENT: &str = "LOG:  database system is ready to accept connections";

/// A running server.
#[derive(Debug)]
pub(crate) struct Cluster {
    // Before its folder: fields are dropped in this order, and the server must not lose its files while it runs.
    process: Process,
    url: String,
    address: Address,
    _directory: TempDir,
}

/// Its files, and who it runs as.
struct Files {
    programs: PathBuf,
    /// Somebody else when we are root, as whom PostgreSQL refuses to run.
    owner: Option<(u32, u32)>,
    directory: TempDir,
    password: String,
    /// Random, so that no other server can answer in its place unnoticed.
    name: String,
}

// === impl Cluster ===

impl Cluster {
    /// Makes a cluster and starts its server with these settings beside PostgreSQL's defaults.
    ///
    /// # Errors
    /// PostgreSQL is not installed (the text says what to install) or does not start.
    pub(crate) async fn start(settings: &[String]) -> anyhow::Result<Self> {
        let files = Files::make().await?;
        let mut refused = None;
        for _ in 0..PORTS_MAX {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
            let mut command = files.server(port, settings);
            match Process::announced("PostgreSQL", &mut command, ANNOUNCEMENT).await {
                Ok((process, _)) => return files.running(process, port).await,
                Err(error) if format!("{error:#}").contains("Address already in use") => refused = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(refused.expect("every port was refused, and there was one"))
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// The address of one of its databases in words, with the password.
    pub(super) fn url(&self, database: &str) -> String {
        format!("{}/{database}", self.url)
    }

    /// Its first process.
    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Stops it without waiting for anybody.
    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        self.process.stop_by(Signal::INT).await
    }
}

// === impl Files ===

impl Files {
    async fn make() -> anyhow::Result<Self> {
        let programs = programs()?;
        let directory = TempDir::with_prefix("oncegate-bench-").context("no temporary directory can be made")?;
        let owner = owner(directory.path()).await?;
        let random = || uuid::Uuid::new_v4().to_string();
        let files = Self { programs, owner, directory, password: random(), name: random() };
        let password_file = files.path("password");
        fs::write(&password_file, &files.password)?;
        if let Some((user, group)) = files.owner {
            for path in [files.directory.path(), &password_file] {
                chown(path, Some(user), Some(group))?;
            }
        }
        let mut initdb = files.program("initdb");
        initdb.arg("--pgdata").arg(files.path("data")).arg("--pwfile").arg(&password_file);
        initdb.args(["--auth=scram-sha-256", "--username=postgres", "--encoding=UTF8", "--locale=C"]);
        // The server itself syncs; only an empty cluster that nobody needs after a power cut is not synced.
        initdb.args(["--no-sync", "--no-instructions"]);
        let output = initdb.stdin(Stdio::null()).output().await.context("initdb does not start")?;
        ensure!(output.status.success(), "initdb failed:\n{}", String::from_utf8_lossy(&output.stderr));
        Ok(files)
    }

    fn server(&self, port: u16, settings: &[String]) -> Command {
        let mut postgres = self.program("postgres");
        postgres.arg("-D").arg(self.path("data"));
        let own = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={port}"),
            format!("unix_socket_directories={}", self.directory.path().display()),
            format!("cluster_name={}", self.name),
            // Room for the recipe with 256 connections.
            "max_connections=400".to_owned(),
            "log_line_prefix=".to_owned(),
        ];
        for setting in own.iter().chain(settings) {
            postgres.arg("-c").arg(setting);
        }
        postgres
    }

    /// Asks who answers.
    async fn running(self, process: Process, port: u16) -> anyhow::Result<Cluster> {
        let url = format!("postgres://postgres:{}@127.0.0.1:{port}", self.password);
        let address: Address = format!("{url}/postgres").parse()?;
        let about = Server::connect(&address).await?.about().await?;
        if about.cluster_name != self.name {
            bail!("another server answers on port {port}");
        }
        Ok(Cluster { process, url, address, _directory: self.directory })
    }

    /// One of PostgreSQL's programs, with no PG* variable of ours to mislead it.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        // The owner may not be allowed to enter the present directory.
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

/// The folder of the programs: that of the `initdb` on PATH, else of the newest packaged version.
fn programs() -> anyhow::Result<PathBuf> {
    programs_in(&env::var_os("PATH").unwrap_or_default(), Path::new(PACKAGED))
}

fn programs_in(path: &std::ffi::OsStr, packaged: &Path) -> anyhow::Result<PathBuf> {
    // Links are followed, since only the folder they lead to has all the programs.
    let linked = |directory: PathBuf| Some(directory.join("initdb").canonicalize().ok()?.parent()?.to_owned());
    let version =
        |entry: fs::DirEntry| Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin")));
    let newest = fs::read_dir(packaged).into_iter().flatten().filter_map(|entry| version(entry.ok()?)).max();
    let mut found = env::split_paths(path).filter_map(linked).chain(newest.map(|(_, directory)| directory));
    found.find(|directory| ["initdb", "postgres"].iter().all(|name| directory.join(name).is_file())).with_context(
        || {
            format!(
                "PostgreSQL (initdb, postgres) is neither on PATH nor in {}: apt-get install postgresql",
                packaged.display()
            )
        },
    )
}

/// User and group to run the server as, if we are root.
async fn owner(ours: &Path) -> anyhow::Result<Option<(u32, u32)>> {
    if fs::metadata(ours)?.uid() != 0 {
        return Ok(None);
    }
    let id = async |option: &str| -> anyhow::Result<u32> {
        let output = Command::new("id").args([option, "postgres"]).output().await?;
        let printed = String::from_utf8_lossy(&output.stdout).trim().parse();
        printed.context("PostgreSQL refuses to run as root, and there is no user postgres: apt-get install postgresql")
    };
    Ok(Some((id("-u").await?, id("-g").await?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_how_to_install_it() {
        let nowhere = tempfile::tempdir().unwrap();
        let error = programs_in(nowhere.path().as_os_str(), nowhere.path()).unwrap_err().to_string();
        assert!(error.contains("apt-get install postgresql"), "{error}");
    }

    #[test]
    fn the_newest_packaged_version_is_found_where_path_has_none() {
        let directory = tempfile::tempdir().unwrap();
        for version in ["9", "16", "old"] {
            let programs = directory.path().join(version).join("bin");
            fs::create_dir_all(&programs).unwrap();
            for name in ["initdb", "postgres"] {
                fs::write(programs.join(name), "").unwrap();
            }
        }
        let found = programs_in(std::ffi::OsStr::new(""), directory.path()).unwrap();
        assert_eq!(found, directory.path().join("16/bin"));
    }
}
