//! A proxy before the server, which loses connections at chosen moments.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Notify, oneshot},
};

/// A running proxy; ends with the test's runtime.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    faults: Arc<Faults>,
}

/// What goes wrong next.
#[derive(Default)]
struct Faults {
    /// How many connections end once the server has committed and before it is heard.
    replies_to_lose: AtomicUsize,
    /// Of those that have sent this text.
    said: Mutex<&'static str>,
    /// How many connections end for the client when it sends its commit, which the server gets when it is let go.
    commits_to_hold: AtomicUsize,
    is_held: Notify,
    go_on: Notify,
    /// How often what stood then went silent.
    silences: AtomicUsize,
}

/// How the server says that it has committed: the tag of a CommandComplete.
const COMMITTED: &[u8] = b"COMMIT\0";
/// How a client asks for it: a Query.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

impl Proxy {
    pub(crate) async fn start(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let faults = Arc::new(Faults::default());
        let shared = Arc::clone(&faults);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, server, Arc::clone(&shared)));
            }
        });
        Self { port, faults }
    }

    pub(crate) fn address(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }

    /// Loses the connection that commits next after it has sent this text, once the server has committed.
    pub(crate) fn lose_next_reply_to(&self, text: &'static str) {
        *self.faults.said.lock().unwrap() = text;
        self.faults.replies_to_lose.store(1, Ordering::SeqCst);
    }

    /// Whether that has happened.
    pub(crate) fn has_lost(&self) -> bool {
        self.faults.replies_to_lose.load(Ordering::SeqCst) == 0
    }

    /// From now on nothing comes back on the connections that stand.
    pub(crate) fn silence(&self) {
        self.faults.silences.fetch_add(1, Ordering::SeqCst);
    }

    /// Loses the connection that commits next, and keeps its commit from the server.
    pub(crate) fn hold_next_commit(&self) {
        self.faults.commits_to_hold.store(1, Ordering::SeqCst);
    }

    /// Waits until a commit is held.
    pub(crate) async fn held(&self) {
        self.faults.is_held.notified().await;
    }

    /// Gives the server the commit that is held.
    pub(crate) fn let_go(&self) {
        self.faults.go_on.notify_one();
    }
}

async fn carry(client: TcpStream, server: u16, faults: Arc<Faults>) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (sender, receiver) = oneshot::channel();
    let is_meant = Arc::new(AtomicBool::new(false));
    let replies = Replies { faults: Arc::clone(&faults), is_meant: Arc::clone(&is_meant), is_held: receiver };
    let down = tokio::spawn(replies.carry(from_server, to_client));
    if let Some((mut to_server, rest)) = upwards(from_client, to_server, &faults, &is_meant).await {
        // The client hears no more, and hangs up.
        let _ = sender.send(());
        faults.is_held.notify_one();
        faults.go_on.notified().await;
        to_server.write_all(&rest).await.unwrap();
        // The server's answer goes nowhere, but it is given: only then is the connection closed.
        down.await.unwrap();
    }
}

/// From the client to the server, until one of them ends, or until a commit is held: that is returned.
async fn upwards(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    faults: &Faults,
    is_meant: &AtomicBool,
) -> Option<(OwnedWriteHalf, Vec<u8>)> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = client.read(&mut buffer).await.ok().filter(|length| *length > 0)?;
        let chunk = &buffer[..length];
        let said = *faults.said.lock().unwrap();
        if said.is_empty() || chunk.windows(said.len()).any(|bytes| bytes == said.as_bytes()) {
            is_meant.store(true, Ordering::SeqCst);
        }
        let commit = chunk.windows(COMMIT.len()).position(|bytes| bytes == COMMIT);
        if let Some(at) = commit.filter(|_| take(&faults.commits_to_hold)) {
            server.write_all(&chunk[..at]).await.ok()?;
            return Some((server, chunk[at..].to_vec()));
        }
        server.write_all(chunk).await.ok()?;
    }
}

/// What comes back on one connection.
struct Replies {
    faults: Arc<Faults>,
    /// Whether it has sent what the next fault is for.
    is_meant: Arc<AtomicBool>,
    /// Says that the client has sent a commit which is held: it hears no more.
    is_held: oneshot::Receiver<()>,
}

impl Replies {
    /// From the server to the client, until one of them ends, or until a reply is to be lost.
    async fn carry(mut self, mut server: OwnedReadHalf, client: OwnedWriteHalf) {
        let (mut client, mut buffer) = (Some(client), vec![0; 1 << 16]);
        let silences = self.faults.silences.load(Ordering::SeqCst);
        loop {
            let length = tokio::select! {
                // An error: nothing is held, and the other direction has ended.
                held = &mut self.is_held, if client.is_some() => match held {
                    Ok(()) => {
                        client = None;
                        continue;
                    }
                    Err(_) => return,
                },
                read = server.read(&mut buffer) => read.unwrap_or(0),
            };
            let chunk = &buffer[..length];
            let has_committed = chunk.windows(COMMITTED.len()).any(|bytes| bytes == COMMITTED);
            if length == 0 || (client.is_none() && has_committed) {
                return;
            }
            let is_silent = self.faults.silences.load(Ordering::SeqCst) != silences;
            let Some(client) = client.as_mut().filter(|_| !is_silent) else { continue };
            let is_meant = has_committed && self.is_meant.swap(false, Ordering::SeqCst);
            if (is_meant && take(&self.faults.replies_to_lose)) || client.write_all(chunk).await.is_err() {
                return;
            }
        }
    }
}

fn take(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}
