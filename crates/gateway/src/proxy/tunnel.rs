//! Connections that were switched to another protocol: bytes pass both ways until one side ends.

use std::io;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The open tunnels.
///
/// A tunnel has no requests that could be waited for, so it has no drain either: it lives until a side ends it or
/// [`Self::cut`]. TCP keep-alive finds peers that vanished; a tunnel that is merely silent may be so for ever, as
/// WebSockets are.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tunnels {
    tracker: TaskTracker,
    cut: CancellationToken,
}

// === impl Tunnels ===

impl Tunnels {
    /// Ends all tunnels, now and from now on, and says how many there were.
    pub(crate) async fn cut(&self) -> usize {
        let open = self.tracker.len();
        self.tracker.close();
        self.cut.cancel();
        self.tracker.wait().await;
        open
    }

    /// Connects the two sides as soon as both have left HTTP behind.
    pub(super) fn open(&self, client: OnUpgrade, upstream: OnUpgrade) {
        let cut = self.cut.clone();
        self.tracker.spawn(async move {
            if let Some(Err(error)) = cut.run_until_cancelled(run(client, upstream)).await {
                tracing::debug!(%error, "tunnel ended early");
            }
        });
    }
}

async fn run(client: OnUpgrade, upstream: OnUpgrade) -> io::Result<()> {
    let (client, upstream) = tokio::try_join!(client, upstream).map_err(io::Error::other)?;
    tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(upstream)).await?;
    Ok(())
}
