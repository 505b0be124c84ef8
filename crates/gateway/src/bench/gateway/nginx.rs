//! nginx as the upstream, and nginx as a proxy to compare with.

use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    path::Path,
    time::Duration,
};

use anyhow::{Context as _, bail};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::Command,
};

use crate::bench::process::Process;

/// One process, one thread, nothing logged, connections kept for as long as the run lasts.
const CONFIGURATION: &str = "\
daemon off;
master_process off;
error_log stderr error;
pid DIRECTORY/nginx.pid;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    client_body_temp_path DIRECTORY/body;
    proxy_temp_path DIRECTORY/proxy;
    fastcgi_temp_path DIRECTORY/fastcgi;
    uwsgi_temp_path DIRECTORY/uwsgi;
    scgi_temp_path DIRECTORY/scgi;
    ROLE
}
";

const UPSTREAM: &str = "server {
        listen LISTEN;
        location / { return 201; }
        location = /count { stub_status; }
    }";

const PROXY: &str = "upstream backend { server TARGET; keepalive 256; keepalive_requests 1000000000; }
    server {
        listen LISTEN;
        location / { proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection \"\"; }
    }";

/// How long nginx may take until it accepts connections, and how often that is tried.
const START_MAX: Duration = Duration::from_secs(10);
const START_PAUSE: Duration = Duration::from_millis(10);

/// A running nginx.
#[derive(Debug)]
pub(super) struct Nginx {
    pub(super) process: Process,
    pub(super) address: SocketAddr,
}

// === impl Nginx ===

impl Nginx {
    /// Answers everything with 201, and says on `/count` how often it did.
    pub(super) async fn upstream(program: &Path, directory: &Path) -> anyhow::Result<Self> {
        Self::start(program, &directory.join("upstream"), UPSTREAM).await
    }

    /// Passes everything on to `target`.
    pub(super) async fn proxy(program: &Path, directory: &Path, target: SocketAddr) -> anyhow::Result<Self> {
        Self::start(program, &directory.join("proxy"), &PROXY.replace("TARGET", &target.to_string())).await
    }

    /// How many requests it has answered, this one not among them.
    pub(super) async fn count(&self) -> anyhow::Result<u64> {
        let mut stream = TcpStream::connect(self.address).await?;
        stream.write_all(b"GET /count HTTP/1.0\r\n\r\n").await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let count = answer.split_once("requests").and_then(|(_, numbers)| numbers.split_ascii_whitespace().nth(2));
        let count: u64 = count.and_then(|count| count.parse().ok()).context("nginx does not count its requests")?;
        Ok(count.saturating_sub(1))
    }

    async fn start(program: &Path, directory: &Path, role: &str) -> anyhow::Result<Self> {
        fs::create_dir(directory)?;
        let address = free_address()?;
        let path = directory.to_str().context("the temporary directory's name is not UTF-8")?;
        let role = role.replace("LISTEN", &address.to_string());
        let configuration = CONFIGURATION.replace("ROLE", &role).replace("DIRECTORY", path);
        let file = directory.join("nginx.conf");
        fs::write(&file, configuration)?;
        let mut command = Command::new(program);
        command.args(["-e", "stderr", "-p"]).arg(directory).arg("-c").arg(&file);
        let process = Process::start("nginx", &mut command)?;
        let nginx = Self { process, address };
        nginx.accepts().await?;
        Ok(nginx)
    }

    async fn accepts(&self) -> anyhow::Result<()> {
        let tries = START_MAX.as_millis() / START_PAUSE.as_millis();
        for _ in 0..tries {
            if TcpStream::connect(self.address).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(START_PAUSE).await;
        }
        bail!("nginx accepts no connection on {} after {START_MAX:?}:\n{}", self.address, self.process.said())
    }
}

/// nginx cannot be told to choose, so it is told one that was free a moment ago.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind(("127.0.0.1", 0))?.local_addr()
}
