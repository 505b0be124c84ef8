//! The count: asks the API, or whatever stands behind it, how many effects there are.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::connection::Connection;
use super::plan::{self, CountPlan};
use super::template::NumberedKey;

/// Largest answer of the count that is read, in bytes; it may list every effect.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How often one count is asked for before the storm gives up: the server may just have been stormed.
const TRIES: u32 = 3;

/// The pause between two tries.
const TRY_PAUSE: Duration = Duration::from_millis(200);

/// Reads the number of effects.
#[derive(Debug)]
pub(super) struct Count {
    plan: CountPlan,
    address: SocketAddr,
    /// Longest wait for one answer.
    timeout: Duration,
}

// === impl Count ===

impl Count {
    /// # Errors
    ///
    /// The address of the count cannot be resolved, or nobody listens there.
    pub(super) async fn prepare(plan: CountPlan, timeout: Duration) -> anyhow::Result<Self> {
        let address = plan.endpoint.resolve().await?;
        Ok(Self { plan, address, timeout })
    }

    /// Whether each key has a count of its own.
    pub(super) fn is_per_key(&self) -> bool {
        self.plan.endpoint.names_the_key()
    }

    /// The number of effects now.
    ///
    /// # Errors
    ///
    /// No answer in three tries, or an answer that does not hold a number where the pointer says.
    pub(super) async fn read(&self, key: &NumberedKey) -> anyhow::Result<u64> {
        let mut tries = 1;
        loop {
            let answer = timeout(self.timeout, self.ask(key)).await;
            let failure = match answer {
                Ok(Ok(body)) => return number_at(&body, &self.plan.pointer).with_context(|| self.name()),
                Ok(Err(error)) => error,
                Err(_) => anyhow::anyhow!("no answer within {}", humantime::format_duration(self.timeout)),
            };
            if tries == TRIES {
                return Err(failure.context(self.name()));
            }
            tries += 1;
            sleep(TRY_PAUSE).await;
        }
    }

    /// The number of effects once it has stood still for the time to settle: repeats that nobody waits for any more may
    /// still execute. Gives up waiting, not counting, after the time for one answer.
    pub(super) async fn read_settled(&self, key: &NumberedKey) -> anyhow::Result<u64> {
        let started = Instant::now();
        let mut last = self.read(key).await?;
        loop {
            sleep(self.plan.settle).await;
            let now = self.read(key).await?;
            if now == last || started.elapsed() > self.timeout {
                return Ok(now);
            }
            last = now;
        }
    }

    async fn ask(&self, key: &NumberedKey) -> anyhow::Result<Bytes> {
        let mut request = plan::request(&Method::GET, &self.plan.endpoint, &self.plan.headers, key);
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        let mut connection = Connection::open(self.address).await.context("cannot connect")?;
        let response = connection.send(request.map(|()| Full::default())).await?;
        if response.status() != StatusCode::OK {
            bail!("answered {} instead of 200", response.status());
        }
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        Ok(body.map_err(anyhow::Error::from_boxed)?.to_bytes())
    }

    fn name(&self) -> String {
        format!("cannot count at {}", self.plan.endpoint.as_str())
    }
}

/// The number at the pointer, or the length of the array there.
fn number_at(body: &[u8], pointer: &str) -> anyhow::Result<u64> {
    let json: Value = serde_json::from_slice(body).context("the answer is not JSON")?;
    let Some(value) = json.pointer(pointer) else {
        bail!("the answer has nothing at {pointer:?}: give --count-pointer");
    };
    match value {
        Value::Array(effects) => Ok(effects.len() as u64),
        Value::Number(number) if number.is_u64() => Ok(number.as_u64().unwrap_or_default()),
        _ => bail!("{value} at {pointer:?} is neither a whole number from 0 nor an array"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_a_number_or_the_length_of_an_array() {
        assert_eq!(number_at(br#"{"count":3}"#, "/count").unwrap(), 3);
        assert_eq!(number_at(b"7", "").unwrap(), 7);
        assert_eq!(number_at(br#"{"results":[{},{}]}"#, "/results").unwrap(), 2);
    }

    #[test]
    fn what_is_no_count_is_refused() {
        let refusal = |body: &str, pointer: &str| format!("{:#}", number_at(body.as_bytes(), pointer).unwrap_err());

        assert!(refusal("<html>", "/count").contains("not JSON"));
        assert!(refusal(r#"{"total":3}"#, "/count").contains("--count-pointer"));
        assert!(refusal(r#"{"count":-1}"#, "/count").contains("-1"));
        assert!(refusal(r#"{"count":"3"}"#, "/count").contains("\"3\""));
    }
}
