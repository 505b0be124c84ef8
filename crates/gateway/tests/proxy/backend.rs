//! A backend that answers each sample as the sample says, and tells what it got.

use std::net::SocketAddr;

use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
};

use crate::{
    message::{Framing, Head, Wire},
    samples::{ECHO_END, NUMBER, Sample},
};

/// A running backend.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    seen: mpsc::UnboundedReceiver<Seen>,
    accepting: JoinHandle<()>,
}

/// A request as it arrived.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) head: Head,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<String>,
}

// === impl Backend ===

impl Backend {
    pub(crate) async fn start(samples: Vec<Sample>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("loopback has room");
        let address = listener.local_addr().expect("it listens");
        let (tell, seen) = mpsc::unbounded_channel();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, samples.clone(), tell.clone()));
            }
        });
        Self { address, seen, accepting }
    }

    /// The next request that arrived.
    pub(crate) async fn seen(&mut self) -> Seen {
        self.seen.recv().await.expect("the backend runs")
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(stream: TcpStream, samples: Vec<Sample>, tell: mpsc::UnboundedSender<Seen>) {
    let mut wire = Wire::new(stream);
    while let Some(head) = wire.head().await {
        let number: usize = head.get(NUMBER).and_then(|number| number.parse().ok()).expect("samples are numbered");
        let sample = &samples[number];
        let method = head.first_line.split(' ').next().unwrap_or_default().to_owned();
        let (body, trailers) = wire.body(head.request_framing()).await;
        let _ = tell.send(Seen { head, body, trailers });
        wire.send(&sample.response).await;
        if sample.echoes {
            echo(&mut wire).await;
        }
        let answered = Head::parse(&String::from_utf8_lossy(&sample.response));
        if sample.echoes || answered.response_framing(&method) == Framing::UntilClose {
            return;
        }
    }
}

/// Sends back what comes, byte by byte, until the last byte of a conversation.
async fn echo(wire: &mut Wire) {
    loop {
        let byte = wire.bytes(1).await;
        wire.send(&byte).await;
        if byte == ECHO_END {
            return;
        }
    }
}
