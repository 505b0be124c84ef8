//! Latency without pressure: one request at a time, a hundred in a second.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use hdrhistogram::Histogram;
use http::{Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    time::{Instant, Interval, MissedTickBehavior},
};
use tokio_util::task::AbortOnDropHandle;

use super::wrk::body;

/// The pause from one request to the next.
pub(super) const PAUSE: Duration = Duration::from_millis(10);

/// A client with one connection.
pub(super) struct Paced {
    sender: SendRequest<Full<Bytes>>,
    _connection: AbortOnDropHandle<()>,
}

/// When requests are due.
pub(super) fn ticks() -> Interval {
    ticks_of(PAUSE)
}

fn ticks_of(pause: Duration) -> Interval {
    let mut ticks = tokio::time::interval(pause);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

// === impl Paced ===

impl Paced {
    pub(super) async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // Its error reaches whoever waits for an answer.
        let connection = tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, _connection: AbortOnDropHandle::new(connection) })
    }

    /// The median in microseconds over so many seconds; with a prefix, each request has a key of its own.
    pub(super) async fn p50_micros(
        &mut self,
        prefix: Option<&str>,
        pause: Duration,
        seconds: u32,
    ) -> anyhow::Result<u64> {
        let mut latencies = Histogram::<u64>::new(3)?;
        let mut ticks = ticks_of(pause);
        for number in 1..=u64::from(seconds) * 1000 / u64::try_from(pause.as_millis())? {
            ticks.tick().await;
            let asked = Instant::now();
            self.post(prefix, number).await?;
            latencies.record(u64::try_from(asked.elapsed().as_micros())?)?;
        }
        Ok(latencies.value_at_quantile(0.5))
    }

    /// One request, answered whole; its key is the prefix and the number.
    pub(super) async fn post(&mut self, prefix: Option<&str>, number: u64) -> anyhow::Result<()> {
        let mut request =
            Request::post("/payments").header(header::HOST, "bench").header(header::CONTENT_TYPE, "application/json");
        if let Some(prefix) = prefix {
            request = request.header("idempotency-key", format!("{prefix}{number}"));
        }
        self.sender.ready().await?;
        let response = self.sender.send_request(request.body(Full::from(body(number)))?).await?;
        let status = response.status();
        response.into_body().collect().await.context("the answer was cut")?;
        ensure!(status.is_success(), "answered with {status}");
        Ok(())
    }
}
