//! Orders in PostgreSQL. The order and the answer to it commit in one transaction, so that a repeat with the same
//! `Idempotency-Key` never orders twice, whatever dies, stalls or comes twice in between.
//!
//! `DATABASE_URL=postgres://localhost/shop cargo run -p axum-orders`

use std::{env, error::Error, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use oncegate_core::{Backend, Store, StoredResponse};
use oncegate_store::{
    complete_in::{CompleteIn, CompleteInError},
    postgres::{Migrator, Options, PostgresStore},
};
use oncegate_tower::{CurrentLease, IdempotencyLayer, Route, Routes};
use serde::Deserialize;
use serde_json::json;
use tokio_postgres::{Client, Config, NoTls};

// === the handler ===

#[derive(Debug, Deserialize)]
struct Order {
    item: String,
}

/// Orders, stores the answer and commits both, or neither.
async fn order(
    State(shop): State<Shop>,
    CurrentLease { lease, .. }: CurrentLease,
    Json(order): Json<Order>,
) -> Result<Response, Failure> {
    let mut client = shop.connect().await?;
    let transaction = client.transaction().await?;
    let ordered = transaction.query_one("INSERT INTO orders (item) VALUES ($1) RETURNING id", &[&order.item]).await?;
    let response = created(&json!({ "order": ordered.get::<_, i64>(0), "item": order.item }));
    // An error drops the transaction, which rolls it back.
    lease.complete_in(&transaction, &response).await?;
    transaction.commit().await?;
    // Only now, and the very answer that was stored: every repeat gets it too.
    Ok(answer(response))
}

fn created(body: &serde_json::Value) -> StoredResponse {
    let headers = vec![("content-type".to_owned(), "application/json".into())];
    StoredResponse { status: 201, headers, body: Some(body.to_string().into()) }
}

fn answer(StoredResponse { status, headers, body }: StoredResponse) -> Response {
    let mut answer = Response::builder().status(status);
    for (name, value) in headers {
        answer = answer.header(name, &value[..]);
    }
    let body = body.unwrap_or_default();
    answer.body(body.into()).unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

// === what can go wrong ===

/// Nothing was committed, or the database did not say so.
#[derive(Debug)]
enum Failure {
    /// Another attempt has this order.
    Fenced,
    Database,
}

impl From<CompleteInError<tokio_postgres::Error>> for Failure {
    fn from(error: CompleteInError<tokio_postgres::Error>) -> Self {
        match error {
            CompleteInError::Fenced(_) => Self::Fenced,
            _ => Self::Database,
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        eprintln!("the database failed: {error}");
        Self::Database
    }
}

impl IntoResponse for Failure {
    /// The layer looks at the record before it passes one of these on: if the order stands, its answer goes out instead.
    fn into_response(self) -> Response {
        match self {
            Self::Fenced => StatusCode::CONFLICT.into_response(),
            Self::Database => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    }
}

// === the service ===

#[derive(Debug, Clone)]
struct Shop {
    database: Config,
}

impl Shop {
    /// A connection for each request keeps the example short; a service has a pool.
    async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = self.database.connect(NoTls).await?;
        // Ends with its client.
        tokio::spawn(connection);
        Ok(client)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("DATABASE_URL").map_err(|_| "set DATABASE_URL, such as postgres://localhost/shop")?;
    let shop = Shop { database: url.parse()? };
    let table = "CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, item text NOT NULL)";
    shop.connect().await?.batch_execute(table).await?;

    let address = url.parse()?;
    Migrator::connect(&address).await?.migrate().await?;
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(&address, Options::default()));
    tokio::spawn(reap(Arc::clone(&store)));

    // The handlers complete their records themselves, so an abandoned one may be taken over.
    let mut route = Route::layer("orders", Backend::Transactional);
    route.required = true;
    let layer = IdempotencyLayer::new(store, Routes::all(route));
    let app = Router::new().route("/orders", post(order)).layer(layer).with_state(shop);

    let listen = env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:8000".to_owned());
    let listener = tokio::net::TcpListener::bind(listen).await?;
    eprintln!("listening on {}", listener.local_addr()?);
    axum::serve(listener, app).await?;
    Ok(())
}

/// Deletes what has expired, in small batches.
async fn reap(store: Arc<dyn Store>) {
    loop {
        tokio::time::sleep(Duration::from_secs(5)).await;
        if let Err(error) = store.reap(1000).await {
            eprintln!("nothing was reaped: {error}");
        }
    }
}
