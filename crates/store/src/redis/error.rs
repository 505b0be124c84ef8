//! Redis's errors in the words of the contract.

use oncegate_core::{ErrorKind, StoreError};
use redis::RedisError;

/// What the caller of a verb is told.
pub(super) fn to_store_error(error: RedisError) -> StoreError {
    let (kind, text) = meaning(&error);
    StoreError::new(kind, text).with_source(error)
}

fn meaning(error: &RedisError) -> (ErrorKind, String) {
    let unavailable = |text: &str| (ErrorKind::Unavailable, text.to_owned());
    match error.code() {
        Some("OOM") => (
            ErrorKind::Full,
            "Redis has reached its maxmemory: raise it, shorten the retention, or store fewer bodies".to_owned(),
        ),
        Some("READONLY") => unavailable("Redis is a replica there, which cannot be written: name the primary"),
        Some("NOAUTH" | "WRONGPASS") => unavailable("Redis refuses this user or password"),
        code if is_forbidden(code, error) => {
            unavailable("Redis does not allow this user what the store needs; see docs/redis.md")
        }
        Some("MISCONF") => unavailable("Redis refuses writes, since it cannot save its data"),
        Some("LOADING") => unavailable("Redis is still loading its data"),
        Some("NOREPLICAS") => unavailable("Redis refuses writes, since too few replicas follow it"),
        Some("CLUSTERDOWN" | "MASTERDOWN") => unavailable("the Redis Cluster does not serve all of its slots"),
        Some("TRYAGAIN") => unavailable("the Redis Cluster is moving this slot"),
        Some("MOVED" | "ASK" | "CROSSSLOT") => {
            unavailable("this is a node of a Cluster: write redis-cluster://HOST,HOST")
        }
        _ if error.kind() == redis::ErrorKind::AuthenticationFailed => {
            unavailable("Redis refuses this user or password")
        }
        _ if error.is_timeout() => unavailable("Redis did not answer in time"),
        _ if error.is_connection_dropped() => unavailable("the connection to Redis was lost"),
        _ if error.is_connection_refusal() || error.is_io_error() => unavailable("Redis cannot be reached"),
        Some(code) => (ErrorKind::Unavailable, format!("Redis refused a verb with {code}")),
        None => unavailable("Redis could not be asked"),
    }
}

/// Within a script this refusal has no code of its own.
fn is_forbidden(code: Option<&str>, error: &RedisError) -> bool {
    let says = |detail: &str| detail.contains("The user executing the script can't");
    code == Some("NOPERM") || error.detail().is_some_and(says)
}
