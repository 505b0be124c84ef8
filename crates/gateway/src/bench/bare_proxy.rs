//! The least that a proxy of hyper and hyper-util can be: the yardstick for what the gate's own rules cost.
//!
//! No timeouts, no limits, no header rules, no drain; HTTP/1.1 only.

use std::process::ExitCode;

use http::{Request, Uri, uri::Authority};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::net::{TcpListener, TcpStream};

/// Forward without any rule
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Where to
    #[arg(long, value_name = "HOST:PORT")]
    upstream: Authority,
}

/// Serves until it is killed.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).build::<_, Incoming>(connector);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream, client.clone(), arguments.upstream.clone()));
    }
}

async fn serve(stream: TcpStream, client: Client<HttpConnector, Incoming>, upstream: Authority) {
    let forward = service_fn(move |mut request: Request<Incoming>| {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(http::uri::Scheme::HTTP);
        parts.authority = Some(upstream.clone());
        *request.uri_mut() = Uri::from_parts(parts).expect("scheme, authority and path are all there");
        client.request(request)
    });
    if stream.set_nodelay(true).is_ok() {
        drop(http1::Builder::new().serve_connection(TokioIo::new(stream), forward).await);
    }
}
