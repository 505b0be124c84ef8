//! A shop: its database, its backend, and gateways in front of it.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Instant,
};

use crate::{
    process::{Gate, PATIENCE},
    servers::postgres::PostgresServer,
    workers::Workers,
};

const DATABASE: &str = "shop";

pub(crate) struct Place {
    // Before the server, since fields are dropped in this order.
    pub(crate) workers: Workers,
    postgres: PostgresServer,
    pub(crate) doors: Doors,
}

/// Where gateways are made.
#[derive(Clone)]
pub(crate) struct Doors {
    upstream: String,
    store: String,
}

impl Place {
    pub(crate) fn open() -> Self {
        let postgres = PostgresServer::start().unwrap();
        postgres.create_database(DATABASE).unwrap();
        let (user, password, port) = (postgres.user(), postgres.password(), postgres.port());
        let store = format!("postgres://{user}:{password}@127.0.0.1:{port}/{DATABASE}");
        let workers = Workers::start(&store);
        let doors = Doors { upstream: format!("http://{}", workers.address), store };
        Self { workers, postgres, doors }
    }

    /// See [`Doors::gate`].
    pub(crate) fn gate(&self, defaults: &str) -> Gate {
        self.doors.gate(defaults, &[])
    }

    /// What the database says.
    pub(crate) fn query(&self, query: &str) -> String {
        self.postgres.execute(DATABASE, query).unwrap()
    }

    /// Waits until the database says so.
    pub(crate) fn wait_until(&self, condition: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.query(&format!("SELECT {condition}")) != "t" {
            assert!(Instant::now() < deadline, "it never holds that {condition}");
        }
    }

    pub(crate) fn payments(&self, key: &str) -> String {
        self.query(&format!("SELECT count(*) FROM payments WHERE key = '{key}'"))
    }

    /// All payments, and the keys that do not stand for just one.
    pub(crate) fn payments_and_wrong_keys(&self) -> String {
        let wrong = "SELECT count(*) FROM (SELECT FROM payments GROUP BY key HAVING count(*) <> 1) AS wrong";
        self.query(&format!("SELECT count(*), ({wrong}) FROM payments"))
    }
}

impl Doors {
    /// A gateway before the backend: transactional, with these further defaults and variables.
    pub(crate) fn gate(&self, defaults: &str, variables: &[(&str, &str)]) -> Gate {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("oncegate.toml");
        fs::write(&config, format!("[defaults]\nbackend = \"transactional\"\n{defaults}\n")).unwrap();
        let arguments = ["--store", &self.store, "--config", config.to_str().unwrap()];
        Gate::start_in(directory, &self.upstream, &arguments, variables)
    }
}

/// A counter of a gateway's metrics.
pub(crate) fn counter(gate: &Gate, name: &str) -> u64 {
    let mut stream = TcpStream::connect(&gate.admin).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let sum = text.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
    sum.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
}
