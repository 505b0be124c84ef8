//! A database on a PostgreSQL server of the test's own.

use tokio::task::block_in_place;

use crate::servers::postgres::PostgresServer;

/// The only database of a server, and the server.
pub(crate) struct Database(PostgresServer);

const NAME: &str = "shop";

impl Database {
    /// A fresh one, without the schema.
    pub(crate) fn start() -> Self {
        block_in_place(|| {
            let server = PostgresServer::start().unwrap();
            server.create_database(NAME).unwrap();
            Self(server)
        })
    }

    /// Where a store finds it.
    pub(crate) fn address(&self) -> String {
        self.address_at(self.port())
    }

    /// The same, through another port.
    pub(crate) fn address_at(&self, port: u16) -> String {
        let Self(server) = self;
        format!("postgres://{}:{}@127.0.0.1:{port}/{NAME}", server.user(), server.password())
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port()
    }

    /// What `psql` prints for a statement.
    pub(crate) fn execute(&self, statement: &str) -> String {
        block_in_place(|| self.0.execute(NAME, statement).unwrap())
    }

    /// Ends the server at once, as a crash would.
    pub(crate) fn stop(&mut self) {
        block_in_place(|| self.0.stop());
    }

    /// Starts the server again.
    pub(crate) fn start_again(&mut self) {
        block_in_place(|| self.0.start_again().unwrap());
    }
}
