//! The payment service of `examples/drf-payments`, served by Gunicorn with a PostgreSQL of its own.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal};

use super::postgres::PostgresServer;
use super::process::ServerProcess;
use super::program::run;
use super::python::VirtualEnvironment;

/// The Django project, as it lies in the repository.
const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/drf-payments");

/// The database it uses in our PostgreSQL.
const DATABASE: &str = "payments";

/// How many processes serve it, as its own settings say.
const WORKERS: usize = 4;

/// Longest wait until a worker answers the first request.
const HEALTH_LIMIT: Duration = Duration::from_secs(60);

/// The project with all that it needs to run: its Python packages, and a database with its tables.
pub(crate) struct Project {
    environment: VirtualEnvironment,
    postgres: PostgresServer,
}

/// The Python package that guards one of its views, as its sources lie in the repository.
const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/python/src");

/// The project, being served on a loopback port.
pub(crate) struct GunicornServer {
    process: ServerProcess,
    address: SocketAddr,
}

// === impl Project ===

impl Project {
    /// Installs the packages and starts PostgreSQL, with the tables that Django makes; they are made once and copied.
    ///
    /// # Errors
    ///
    /// Something is not installed (the text says what to install) or does not start.
    pub(crate) fn prepare() -> anyhow::Result<Self> {
        let environment = VirtualEnvironment::with(&Path::new(PROJECT).join("requirements.txt"))?;
        let postgres = PostgresServer::furnished(&format!("payments-{:016x}", tables()?), |server| {
            server.create_database(DATABASE)?;
            run(manage(&environment, server, "migrate")).map(drop)
        })?;
        Ok(Self { environment, postgres })
    }

    /// Runs one command of the project's `manage.py` to its end.
    ///
    /// # Errors
    ///
    /// The command fails; the text has all that it printed.
    pub(crate) fn manage(&self, command: &str) -> anyhow::Result<String> {
        run(manage(&self.environment, &self.postgres, command))
    }

    /// Asks the database itself, past Django, and returns what `psql` printed.
    ///
    /// # Errors
    ///
    /// The statement fails; the text has the server's words.
    pub(crate) fn query(&self, statement: &str) -> anyhow::Result<String> {
        self.postgres.execute(DATABASE, statement)
    }

    /// The database as `oncegate` is told of it.
    pub(crate) fn store(&self) -> String {
        let (user, password, port) = (self.postgres.user(), self.postgres.password(), self.postgres.port());
        format!("postgres://{user}:{password}@127.0.0.1:{port}/{DATABASE}")
    }

    /// Makes the database anew.
    ///
    /// # Errors
    ///
    /// Somebody still uses it.
    pub(crate) fn empty_database(&self) -> anyhow::Result<()> {
        self.postgres.execute("postgres", &format!("DROP DATABASE {DATABASE}"))?;
        self.postgres.create_database(DATABASE)
    }

    /// Serves the project, with these variables in its environment.
    ///
    /// # Errors
    ///
    /// Gunicorn does not start or does not answer.
    pub(crate) fn serve(&self, variables: &[(&str, &str)]) -> anyhow::Result<GunicornServer> {
        let mut gunicorn = program(&self.environment, &self.postgres, "gunicorn");
        gunicorn.envs(variables.iter().copied());
        // The kernel chooses a free port and Gunicorn logs which; everything else is in the project's own settings.
        gunicorn.args(["--bind", "127.0.0.1:0"]).env_remove("GUNICORN_CMD_ARGS");
        // SIGQUIT ends it at once; SIGTERM would wait for idle connections.
        let (process, address) = ServerProcess::start("Gunicorn", gunicorn, Signal::QUIT, listening_address)?;
        let server = GunicornServer { process, address };
        server.await_health().with_context(|| format!("Gunicorn is not healthy:\n{}", server.process.log()))?;
        Ok(server)
    }
}

/// One command of the project's `manage.py`.
fn manage(environment: &VirtualEnvironment, postgres: &PostgresServer, command: &str) -> Command {
    let mut manage = program(environment, postgres, "python");
    manage.args(["manage.py", command]);
    manage
}

/// A program of the project's environment, told where its database is.
fn program(environment: &VirtualEnvironment, postgres: &PostgresServer, name: &str) -> Command {
    let mut program = environment.program(name);
    program
        .current_dir(PROJECT)
        .env("DJANGO_SETTINGS_MODULE", "shop.settings")
        .env("DATABASE_HOST", "127.0.0.1")
        .env("DATABASE_PORT", postgres.port().to_string())
        .env("DATABASE_NAME", DATABASE)
        .env("DATABASE_USER", postgres.user())
        .env("DATABASE_PASSWORD", postgres.password())
        .env_remove("ALLOWED_HOSTS")
        .env("PYTHONPATH", PACKAGE)
        .env_remove("PAYMENT_DELAY_MS")
        .env_remove("ONCEGATE_SECRET")
        // Compiled once, and not beside the sources.
        .env_remove("PYTHONDONTWRITEBYTECODE")
        .env("PYTHONPYCACHEPREFIX", concat!(env!("CARGO_TARGET_TMPDIR"), "/compiled"));
    program
}

/// What the tables are made of. Another digest than another release of Rust's costs one more making.
fn tables() -> anyhow::Result<u64> {
    let mut hasher = DefaultHasher::new();
    let (project, package) = (Path::new(PROJECT), Path::new(PACKAGE).join("oncegate"));
    for folder in [project.join("payments/migrations"), package.join("django/migrations"), package.join("sql")] {
        let mut files: Vec<_> = fs::read_dir(&folder)?.flatten().map(|file| file.path()).collect();
        files.sort();
        for file in files.iter().filter(|file| file.is_file()) {
            (file, fs::read(file)?).hash(&mut hasher);
        }
    }
    fs::read(project.join("requirements.txt"))?.hash(&mut hasher);
    Ok(hasher.finish())
}

// === impl GunicornServer ===

impl GunicornServer {
    /// The address of a path of the service.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The processes that serve requests, as many as there should be, the longest-lived first; a killed one is there
    /// until its successor is.
    pub(crate) fn workers(&self) -> Vec<Pid> {
        let log = self.process.log();
        let booted = log.lines().filter_map(|line| line.split_once("Booting worker with pid: "));
        let mut workers: Vec<_> = booted.filter_map(|(_, id)| Pid::from_raw(id.parse().ok()?)).collect();
        workers.split_off(workers.len().saturating_sub(WORKERS))
    }

    /// Gunicorn listens before its workers have loaded the project; the first answer says that one has.
    fn await_health(&self) -> anyhow::Result<()> {
        let mut connection = TcpStream::connect(self.address)?;
        connection.set_read_timeout(Some(HEALTH_LIMIT))?;
        connection.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 200 "), "GET /healthz answered {answer:?}");
        Ok(())
    }
}

/// Finds `Listening at: http://ADDRESS (PID)`.
fn listening_address(line: &str) -> Option<SocketAddr> {
    let (_, address) = line.split_once("Listening at: http://")?;
    address.split(' ').next()?.parse().ok()
}
