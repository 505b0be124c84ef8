//! The payment service of `examples/drf-payments`, served by Gunicorn with a PostgreSQL of its own.

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

/// The project with all that it needs to run: its Python packages, and an empty database.
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
    /// Installs the packages and starts PostgreSQL.
    ///
    /// # Errors
    ///
    /// Something is not installed (the text says what to install) or does not start.
    pub(crate) fn prepare() -> anyhow::Result<Self> {
        let environment = VirtualEnvironment::with(&Path::new(PROJECT).join("requirements.txt"))?;
        let postgres = PostgresServer::start()?;
        postgres.create_database(DATABASE)?;
        Ok(Self { environment, postgres })
    }

    /// Runs one command of the project's `manage.py` to its end.
    ///
    /// # Errors
    ///
    /// The command fails; the text has all that it printed.
    pub(crate) fn manage(&self, command: &str) -> anyhow::Result<String> {
        let mut manage = self.program("python");
        manage.args(["manage.py", command]);
        run(manage)
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

    /// Makes the tables and serves the project, with these variables in its environment.
    ///
    /// # Errors
    ///
    /// The tables cannot be made, or Gunicorn does not start or does not answer.
    pub(crate) fn serve(&self, variables: &[(&str, &str)]) -> anyhow::Result<GunicornServer> {
        self.manage("migrate")?;
        let mut gunicorn = self.program("gunicorn");
        gunicorn.envs(variables.iter().copied());
        // The kernel chooses a free port and Gunicorn logs which; everything else is in the project's own settings.
        gunicorn.args(["--bind", "127.0.0.1:0"]).env_remove("GUNICORN_CMD_ARGS");
        // SIGQUIT ends it at once; SIGTERM would wait for idle connections.
        let (process, address) = ServerProcess::start("Gunicorn", gunicorn, Signal::QUIT, listening_address)?;
        let server = GunicornServer { process, address };
        server.await_health().with_context(|| format!("Gunicorn is not healthy:\n{}", server.process.log()))?;
        Ok(server)
    }

    /// A program of the project's environment, told where its database is.
    fn program(&self, name: &str) -> Command {
        let mut program = self.environment.program(name);
        program
            .current_dir(PROJECT)
            .env("DJANGO_SETTINGS_MODULE", "shop.settings")
            .env("DATABASE_HOST", "127.0.0.1")
            .env("DATABASE_PORT", self.postgres.port().to_string())
            .env("DATABASE_NAME", DATABASE)
            .env("DATABASE_USER", self.postgres.user())
            .env("DATABASE_PASSWORD", self.postgres.password())
            .env_remove("ALLOWED_HOSTS")
            .env("PYTHONPATH", PACKAGE)
            .env_remove("PAYMENT_DELAY_MS")
            .env_remove("ONCEGATE_SECRET")
            // The sources stay as they are.
            .env("PYTHONDONTWRITEBYTECODE", "1");
        program
    }
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
