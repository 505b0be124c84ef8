//! A socket whose writes can be held back and then released by one system call.
//!
//! Repeats must leave at the same instant. Woken tasks would not do: to schedule and serialise 300 of them takes tens of
//! milliseconds on a busy machine, longer than the window of many races. So every request is written ahead, into
//! memory, and the release is a plain loop of writes in one thread. This is the reason for the hand-written polls here.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// A handle to the socket; it closes when all handles are dropped.
#[derive(Clone, Debug)]
pub(super) struct HeldSocket {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    socket: TcpStream,
    /// `None` while writes pass through.
    held: Mutex<Option<Held>>,
}

/// What was written while held.
#[derive(Debug)]
struct Held {
    bytes: Vec<u8>,
    /// Told once, at the first flush.
    flushed: Option<oneshot::Sender<()>>,
}

// === impl HeldSocket ===

impl HeldSocket {
    pub(super) fn new(socket: TcpStream) -> Self {
        Self { inner: Arc::new(Inner { socket, held: Mutex::new(None) }) }
    }

    /// From now on, holds back what is written. The receiver is told when it was flushed: a request with its body in one
    /// piece is then whole.
    pub(super) fn hold(&self) -> oneshot::Receiver<()> {
        let (flushed, receiver) = oneshot::channel();
        *self.held() = Some(Held { bytes: Vec::new(), flushed: Some(flushed) });
        receiver
    }

    /// Sends what was held, in one system call, and holds nothing any more. Returns what did not fit into the buffers of
    /// the system; pass that to [`send_rest`](Self::send_rest). A failure shows when the answer is read.
    pub(super) fn release(&self) -> Vec<u8> {
        // The lock is kept while the bytes are sent: nothing may overtake them.
        let mut held = self.held();
        let mut bytes = held.take().map(|held| held.bytes).unwrap_or_default();
        match self.inner.socket.try_write(&bytes) {
            Ok(sent) => bytes.split_off(sent),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => bytes,
            Err(_) => Vec::new(),
        }
    }

    /// Sends the rest of a large request. A failure shows when the answer is read, which may have come early.
    pub(super) async fn send_rest(&self, mut rest: Vec<u8>) {
        while !rest.is_empty() && self.inner.socket.writable().await.is_ok() {
            match self.inner.socket.try_write(&rest) {
                Ok(sent) => rest = rest.split_off(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<Held>> {
        // The bytes are whole at any moment, so a poisoned lock is as good as another.
        self.inner.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for HeldSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.inner.socket.poll_read_ready(cx))?;
            match self.inner.socket.try_read(buffer.initialize_unfilled()) {
                Ok(read) => {
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for HeldSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if let Some(held) = self.held().as_mut() {
            held.bytes.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        loop {
            ready!(self.inner.socket.poll_write_ready(cx))?;
            match self.inner.socket.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(held) = self.held().as_mut().filter(|held| !held.bytes.is_empty())
            && let Some(flushed) = held.flushed.take()
        {
            // Nobody waits any more when the repeat is gone.
            let _ = flushed.send(());
        }
        Poll::Ready(Ok(()))
    }

    /// The socket closes when it is dropped, which follows at once.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
