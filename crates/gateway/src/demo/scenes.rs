//! The scenes, in order. Each sends, then asks the service what it counted.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    client::{self, Answer, Payment},
    shown::{self, Burst, Repeat, Shown, Unknown},
    stage::Stage,
};

/// How many requests start at the same instant.
const REPEATS: usize = 50;

/// An operator's word takes effect within 5 s; a machine under load gets longer.
const RESOLUTION_MAX: Duration = Duration::from_secs(15);
const RESOLUTION_PAUSE: Duration = Duration::from_millis(50);

/// Plays all of them.
///
/// # Errors
///
/// Something did not start or did not answer. That what was answered is wrong is no error: it is shown.
pub(super) async fn play(stage: &mut Stage) -> anyhow::Result<Shown> {
    say(1, &format!("{REPEATS} repeats at the same instant, straight to the service"));
    let straight = payment();
    let answers = client::pay_at_once(stage.service(), &straight, REPEATS).await?;
    let straight = Burst::of(&straight.key, &answers, count(stage, &straight.key).await?);

    say(2, "the same through the gate");
    stage.start_gate().await?;
    let guarded = payment();
    let answers = client::pay_at_once(stage.gate()?.gate, &guarded, REPEATS).await?;
    let gate = Burst::of(&guarded.key, &answers, count(stage, &guarded.key).await?);
    let first = shown::executed(&answers).map_or("", |answer| &answer.body);

    say(3, "kill -9 of the gate, a new start, and a repeat");
    stage.kill_gate().await?;
    stage.start_gate().await?;
    let restart = repeat(stage, &guarded, first).await?;

    say(4, "the same key with another amount");
    let other = Payment { amount: 200, ..guarded };
    let mismatch = repeat(stage, &other, first).await?;

    say(5, "the service charges and hangs up; an operator decides");
    let unknown = unknown(stage).await?;

    eprintln!();
    let total_payments = total(stage).await?;
    Ok(Shown { straight, gate, restart, mismatch, unknown, total_payments })
}

async fn unknown(stage: &Stage) -> anyhow::Result<Unknown> {
    let payment = Payment { hangs_up: true, ..payment() };
    let lost = repeat(stage, &payment, "").await?;
    let repeated = repeat(stage, &payment, "").await?;

    let charged = client::get(stage.service(), &format!("/count?key={}", payment.key)).await?;
    // What the service would have answered: the operator looks it up in the service's data.
    let body = json!({ "payment": charged["payments"][0], "amount": payment.amount }).to_string();
    let mut deadline = Instant::now() + RESOLUTION_MAX;
    if let Err(error) = resolve(stage, &payment.key, &body).await {
        // Not the end of the demo: what the repeat gets then is shown, and is not what is expected.
        eprintln!("the operator could not resolve it: {error:#}");
        deadline = Instant::now();
    }
    loop {
        let resolved = repeat(stage, &payment, &body).await?;
        if resolved.status != 409 || Instant::now() >= deadline {
            return Ok(Unknown { lost, repeat: repeated, resolved });
        }
        tokio::time::sleep(RESOLUTION_PAUSE).await;
    }
}

async fn resolve(stage: &Stage, key: &str, body: &str) -> anyhow::Result<()> {
    let operator = stage.operator();
    let seen = operator.find_unknown(key).await?;
    operator.resolve(&seen, body).await
}

/// Sends a payment through the gate once more.
async fn repeat(stage: &Stage, payment: &Payment, expected: &str) -> anyhow::Result<Repeat> {
    let answer: Answer = client::pay(stage.gate()?.gate, payment).await?;
    Ok(Repeat::of(&payment.key, &answer, expected, count(stage, &payment.key).await?))
}

/// A new payment. Its key is a UUID, as a client's would be, so that no two runs share one.
fn payment() -> Payment {
    Payment { key: Uuid::new_v4().to_string(), amount: 100, hangs_up: false }
}

async fn count(stage: &Stage, key: &str) -> anyhow::Result<u64> {
    counted(stage.service(), &format!("/count?key={key}")).await
}

async fn total(stage: &Stage) -> anyhow::Result<u64> {
    counted(stage.service(), "/count").await
}

async fn counted(service: SocketAddr, path: &str) -> anyhow::Result<u64> {
    let said: Value = client::get(service, path).await?;
    said["count"].as_u64().with_context(|| format!("GET {path} counts nothing: {said}"))
}

fn say(number: usize, what: &str) {
    eprintln!("{number}/5 {what}");
}
