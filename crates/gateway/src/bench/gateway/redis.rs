//! A Redis of the measurement's own, as Debian's package starts it but without a file.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    path::Path,
    time::Duration,
};

use anyhow::bail;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::Command,
};

use crate::bench::process::Process;

/// How long Redis may take until it answers, and how often that is tried.
const START_MAX: Duration = Duration::from_secs(10);
const START_PAUSE: Duration = Duration::from_millis(10);

/// A running Redis.
#[derive(Debug)]
pub(super) struct Redis {
    pub(super) process: Process,
    address: SocketAddr,
}

// === impl Redis ===

impl Redis {
    pub(super) async fn start(program: &Path, directory: &Path) -> anyhow::Result<Self> {
        let address = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let mut command = Command::new(program);
        command.current_dir(directory).args([
            "--bind",
            "127.0.0.1",
            "--port",
            &address.port().to_string(),
            "--save",
            "",
        ]);
        let redis = Self { process: Process::start("Redis", &mut command)?, address };
        redis.answers().await?;
        Ok(redis)
    }

    /// The address as the gate is told it.
    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    async fn answers(&self) -> anyhow::Result<()> {
        let ours = format!("process_id:{}\r\n", self.process.pid());
        let tries = START_MAX.as_millis() / START_PAUSE.as_millis();
        for _ in 0..tries {
            match self.about().await {
                Ok(about) if about.contains(&ours) => return Ok(()),
                Ok(_) => bail!("another server answers on {}", self.address),
                Err(_) => tokio::time::sleep(START_PAUSE).await,
            }
        }
        bail!("Redis does not answer on {} after {START_MAX:?}", self.address)
    }

    async fn about(&self) -> io::Result<String> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(b"INFO server\r\nQUIT\r\n").await?;
        let mut about = String::new();
        stream.read_to_string(&mut about).await?;
        Ok(about)
    }
}
