//! A socket that does not wait for ever, and does not forget an answer because of a failed write.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
};

use super::idle_timer::IdleTimer;

/// What an HTTP/2 connection begins with.
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A socket of either side, with what hyper lacks:
///
/// - a limit on the wait for the first bytes of a client's connection, before it is known which HTTP it speaks;
/// - a limit on the wait for a peer that takes nothing of what we send (hyper waits for it even while it closes);
/// - patience after a failed write. A server that refuses a large body answers and hangs up; then writing may fail
///   before the answer has been read, and hyper would throw the answer away. So a failed write is kept quiet until
///   reading has come to its end, which after a reset is soon.
///
/// Where a limit is exceeded the connection fails with [`io::ErrorKind::TimedOut`].
#[derive(Debug)]
pub(super) struct Socket {
    stream: TcpStream,
    opening: Option<Opening>,
    writing: IdleTimer,
    is_write_broken: bool,
    is_read_over: bool,
    /// The client's place among the connections, also once it is a tunnel.
    _permit: Option<OwnedSemaphorePermit>,
}

/// The time until hyper knows the protocol.
#[derive(Debug)]
struct Opening {
    timer: IdleTimer,
    /// How many bytes of the preface have come.
    preface_bytes: usize,
}

// === impl Socket ===

impl Socket {
    /// A client's. `opening`: until the protocol is known; `idle`: for each write.
    pub(super) fn of_client(
        stream: TcpStream,
        permit: OwnedSemaphorePermit,
        opening: Duration,
        idle: Duration,
    ) -> Self {
        let opening = Opening { timer: IdleTimer::new(opening), preface_bytes: 0 };
        Self { opening: Some(opening), _permit: Some(permit), ..Self::of_upstream(stream, idle) }
    }

    /// The upstream's. `idle`: for each write.
    pub(super) fn of_upstream(stream: TcpStream, idle: Duration) -> Self {
        Self {
            stream,
            opening: None,
            writing: IdleTimer::new(idle),
            is_write_broken: false,
            is_read_over: false,
            _permit: None,
        }
    }

    /// What a write of `bytes` bytes comes to.
    fn wrote(&mut self, cx: &mut Context<'_>, bytes: usize, wrote: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match wrote {
            Poll::Ready(Err(_)) => {
                self.is_write_broken = true;
                self.break_write(cx, bytes)
            }
            Poll::Ready(Ok(_)) => {
                self.writing.rest();
                wrote
            }
            Poll::Pending => self.writing.poll_exceeded(cx).map(|()| Err(timed_out("the peer takes nothing"))),
        }
    }

    /// A write behind a failed one: waits while there may be something to read, then swallows, so that the connection
    /// ends by what was read.
    fn break_write(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<io::Result<usize>> {
        if self.is_read_over {
            return Poll::Ready(Ok(bytes));
        }
        // Whoever writes here reads here too, and reading wakes it.
        self.writing.poll_exceeded(cx).map(|()| Err(io::ErrorKind::BrokenPipe.into()))
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        let bytes = buf.filled().get(before..).unwrap_or_default();
        if read.is_ready() && bytes.is_empty() {
            this.is_read_over = true;
        }
        let Some(opening) = &mut this.opening else { return read };
        if read.is_pending() {
            return opening.timer.poll_exceeded(cx).map(|()| Err(timed_out("the client sends nothing")));
        }
        if opening.is_over(bytes) {
            this.opening = None;
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.is_write_broken {
            return self.break_write(cx, buf.len());
        }
        let wrote = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(cx, buf.len(), wrote)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes = || bufs.iter().map(|buf| buf.len()).sum();
        if self.is_write_broken {
            return self.break_write(cx, bytes());
        }
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(cx, bytes(), wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Connection for Socket {
    /// Nothing beyond that it is connected: what stands here is copied into the extensions of every response.
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

// === impl Opening ===

impl Opening {
    /// Whether these further bytes decide the protocol: they complete the preface of HTTP/2, or differ from it.
    fn is_over(&mut self, bytes: &[u8]) -> bool {
        let rest = &H2_PREFACE[self.preface_bytes..];
        let compared = rest.len().min(bytes.len());
        self.preface_bytes += compared;
        bytes[..compared] != rest[..compared] || self.preface_bytes == H2_PREFACE.len()
    }
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}
