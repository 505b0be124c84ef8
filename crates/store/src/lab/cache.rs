//! A Redis as people use it to remember keys.

use redis::{Cmd, RedisError, Value};

use super::Refusal;
use crate::redis::{Address, Link, Options};

// === types ===

/// A Redis, over one connection that all share.
#[derive(Debug)]
pub struct Cache(Link);

// === impl Cache ===

impl Cache {
    /// It connects when it is first asked.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn open(address: &Address) -> Result<Self, Refusal> {
        Ok(Self(Link::new(address, &Options::default())?))
    }

    /// `SET key value NX PX milliseconds`: whether the key was free.
    ///
    /// # Errors
    /// Redis does not answer, or refuses. Cancelled: the key may have been set.
    pub async fn set_if_absent(&self, key: &str, value: &str, millis: u64) -> Result<bool, Refusal> {
        let mut set = redis::cmd("SET");
        set.arg(key).arg(value).arg("NX").arg("PX").arg(millis);
        Ok(self.ask(&set).await? == Value::Okay)
    }

    /// `SET key value KEEPTTL`.
    ///
    /// # Errors
    /// As [`set_if_absent`](Self::set_if_absent).
    pub async fn set(&self, key: &str, value: &str) -> Result<(), Refusal> {
        let mut set = redis::cmd("SET");
        set.arg(key).arg(value).arg("KEEPTTL");
        self.ask(&set).await.map(drop)
    }

    /// `GET key`.
    ///
    /// # Errors
    /// As [`set_if_absent`](Self::set_if_absent).
    pub async fn get(&self, key: &str) -> Result<Option<String>, Refusal> {
        let mut get = redis::cmd("GET");
        get.arg(key);
        Ok(redis::from_redis_value(self.ask(&get).await?).map_err(RedisError::from)?)
    }

    async fn ask(&self, command: &Cmd) -> Result<Value, Refusal> {
        Ok(self.0.ask(command).await?)
    }
}

// === impl Refusal ===

impl From<RedisError> for Refusal {
    fn from(error: RedisError) -> Self {
        let code = error.code().unwrap_or("no answer").to_owned();
        Self::new(code, error)
    }
}
