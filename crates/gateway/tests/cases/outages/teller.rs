//! A service that pays and completes in one transaction, and says 503 whenever it does not know that it did.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, time::timeout};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

/// Shorter than the gateway waits.
const TIME_MAX: Duration = Duration::from_secs(5);

pub(super) struct Teller {
    database: String,
    /// Connections that nobody uses now.
    idle: Mutex<Vec<Client>>,
}

impl Teller {
    /// Starts one; answers with where it listens.
    pub(super) async fn start(database: &str) -> String {
        let teller = Arc::new(Self { database: database.to_owned(), idle: Mutex::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let teller = Arc::clone(&teller);
                let service = service_fn(move |request| Arc::clone(&teller).answer(request));
                let io = TokioIo::new(stream);
                tokio::spawn(http1::Builder::new().timer(TokioTimer::new()).serve_connection(io, service));
            }
        });
        address
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (head, body) = request.into_parts();
        drop(body.collect().await);
        let mut response = Response::default();
        match timeout(TIME_MAX, self.pay(&head.headers)).await {
            Ok(Ok(payment)) => {
                *response.status_mut() = StatusCode::CREATED;
                *response.body_mut() = Full::from(payment.to_string());
            }
            Ok(Err(_)) | Err(_) => *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE,
        }
        Ok(response)
    }

    /// One transaction. After an error its connection is not used again: nobody knows in which state it is.
    async fn pay(&self, headers: &HeaderMap) -> Result<Uuid, tokio_postgres::Error> {
        let header = |name: &str| headers[name].to_str().unwrap();
        let (record, fence): (Uuid, i64) =
            (header("oncegate-record").parse().unwrap(), header("oncegate-fence").parse().unwrap());
        let (key, payment) = (header("idempotency-key"), Uuid::new_v4());
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        transaction.execute("INSERT INTO payments VALUES ($1, $2)", &[&key, &payment]).await?;
        let body = payment.to_string();
        let complete = "SELECT oncegate.complete($1, $2, 201, '[]', $3)";
        transaction.execute(complete, &[&record, &fence, &body.as_bytes()]).await?;
        transaction.commit().await?;
        self.idle.lock().unwrap().push(client);
        Ok(payment)
    }

    async fn client(&self) -> Result<Client, tokio_postgres::Error> {
        while let Some(client) = self.idle.lock().unwrap().pop() {
            if !client.is_closed() {
                return Ok(client);
            }
        }
        let (client, connection) = tokio_postgres::connect(&self.database, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}
