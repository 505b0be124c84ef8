//! Connections that are kept for the next request.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use oncegate_store::lab::{Database, Refusal, Session};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep},
};

// === types ===

/// Some connections, and no more.
#[derive(Debug)]
pub(super) struct Pool {
    database: Database,
    idle: Mutex<Vec<Session>>,
    places: Semaphore,
}

/// A connection, and the right to have one. Dropped, it is closed.
pub(super) type Connection<'a> = (Session, SemaphorePermit<'a>);

/// What PostgreSQL says when nobody else may connect.
const TOO_MANY_CONNECTIONS: &str = "53300";

/// For how long, and how often, a connection is asked for again then.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);
const ROOM_PAUSE: Duration = Duration::from_millis(50);

// === impl Pool ===

impl Pool {
    /// So many at most; each is opened when it is needed.
    pub(super) fn new(database: Database, connections: usize) -> Self {
        Self { database, idle: Mutex::default(), places: Semaphore::new(connections) }
    }

    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// Opens some ahead, so that a storm's requests really arrive together.
    pub(super) async fn warm(&self, connections: usize) -> Result<(), Refusal> {
        let wanted = connections.min(self.places.available_permits());
        while self.idle().len() < wanted {
            let session = self.connect().await?;
            self.idle().push(session);
        }
        Ok(())
    }

    /// One of them; waits while all are in use.
    pub(super) async fn connection(&self) -> Result<Connection<'_>, Refusal> {
        let place = self.places.acquire().await.expect("it is never closed");
        let idle = self.idle().pop();
        match idle {
            Some(session) => Ok((session, place)),
            None => Ok((self.connect().await?, place)),
        }
    }

    /// For the next.
    pub(super) fn give_back(&self, (session, _place): Connection<'_>) {
        self.idle().push(session);
    }

    /// The server may not have noticed yet that a worker died, and have no room for the next.
    async fn connect(&self) -> Result<Session, Refusal> {
        let asked = Instant::now();
        loop {
            match self.database.connect().await {
                Err(refusal) if refusal.code == TOO_MANY_CONNECTIONS && asked.elapsed() < ROOM_PATIENCE => {
                    sleep(ROOM_PAUSE).await;
                }
                connected => return connected,
            }
        }
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
