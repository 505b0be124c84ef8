//! A proxy before the server, which brings calls twice, late or never, at chosen moments.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::Notify,
};

/// A running proxy; ends with the test's runtime. Only one call at a time may be on its way when a fault is chosen.
pub(crate) struct Proxy {
    port: u16,
    faults: Arc<Faults>,
}

/// What goes wrong next.
#[derive(Default)]
struct Faults {
    /// The next call is carried out, its reply is lost, and it comes once more: as a driver sends it again.
    doubles: AtomicBool,
    /// The next call is held back.
    holds: AtomicBool,
    loses_reply: AtomicBool,
    is_lost: Notify,
    is_held: Notify,
    hang_up: Notify,
    go_on: Notify,
    is_delivered: Notify,
    forget: Notify,
}

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
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// From now on nothing is carried over the connections that stand, and nobody is told; as a firewall does that has
    /// forgotten them. New ones are carried.
    pub(crate) fn forget_connections(&self) {
        self.faults.forget.notify_waiters();
    }

    pub(crate) fn double_next_call(&self) {
        self.faults.doubles.store(true, Ordering::SeqCst);
    }

    /// Whether that has happened.
    pub(crate) fn has_doubled(&self) -> bool {
        !self.faults.doubles.load(Ordering::SeqCst)
    }

    pub(crate) fn hold_next_call(&self) {
        self.faults.holds.store(true, Ordering::SeqCst);
    }

    /// Waits until a call is held.
    pub(crate) async fn held(&self) {
        self.faults.is_held.notified().await;
    }

    /// Ends the connection of the call that is held, for the client.
    pub(crate) fn hang_up(&self) {
        self.faults.hang_up.notify_one();
    }

    /// Gives the server the call that is held, and waits until it has answered.
    pub(crate) async fn let_go(&self) {
        self.faults.go_on.notify_one();
        self.faults.is_delivered.notified().await;
    }
}

async fn carry(client: TcpStream, server: u16, faults: Arc<Faults>) {
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut replies = Replies { from_server, to_client };
    let held = tokio::select! {
        held = upwards(from_client, to_server, &faults) => held,
        () = replies.carry(&faults) => None,
        () = faults.forget.notified() => std::future::pending().await,
    };
    let Some((mut to_server, call)) = held else { return };
    let Replies { mut from_server, to_client } = replies;
    faults.is_held.notify_one();
    faults.hang_up.notified().await;
    drop(to_client);
    faults.go_on.notified().await;
    to_server.write_all(&call).await.unwrap();
    assert!(from_server.read(&mut [0; 1024]).await.unwrap() > 0, "the server answers");
    faults.is_delivered.notify_one();
}

struct Replies {
    from_server: OwnedReadHalf,
    to_client: OwnedWriteHalf,
}

impl Replies {
    /// From the server to the client, until one of them ends.
    async fn carry(&mut self, faults: &Faults) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = self.from_server.read(&mut buffer).await {
            if faults.loses_reply.swap(false, Ordering::SeqCst) {
                faults.is_lost.notify_one();
            } else if self.to_client.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    }
}

/// From the client to the server, until one of them ends, or until a call is held: that is returned.
async fn upwards(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    faults: &Faults,
) -> Option<(OwnedWriteHalf, Vec<u8>)> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = client.read(&mut buffer).await.ok().filter(|length| *length > 0)?;
        let chunk = &buffer[..length];
        if faults.holds.swap(false, Ordering::SeqCst) {
            return Some((server, chunk.to_vec()));
        }
        if faults.doubles.swap(false, Ordering::SeqCst) {
            faults.loses_reply.store(true, Ordering::SeqCst);
            server.write_all(chunk).await.ok()?;
            faults.is_lost.notified().await;
        }
        server.write_all(chunk).await.ok()?;
    }
}
