//! What must hold for a server that records are kept on, and what an operator should know of it.

use std::{collections::BTreeMap, fmt};

use oncegate_core::{ErrorKind, StoreError};
use redis::{RedisError, Value};

use super::{RedisStore, error::to_store_error};

// === types ===

/// One server that can be written, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Server {
    /// Its address in a Cluster; empty where there is only one.
    pub address: String,
    /// Its version, such as `7.2.4`.
    pub version: String,
    /// What it does when its memory is full, such as `noeviction`.
    pub eviction: String,
    /// The bytes that its data may take; 0: all there are.
    pub memory_max: u64,
    /// The bytes that they take.
    pub memory_used: u64,
    /// Whether it writes what it acknowledges to an append-only file.
    pub appends: bool,
    /// When that file is synced: `always`, `everysec` or `no`; nothing if it does not tell.
    pub syncs: Option<String>,
    /// How many replicas follow it.
    pub replicas: u32,
}

/// The oldest version that has all that the scripts need.
const VERSION_MIN: u32 = 7;

// === impl RedisStore ===

impl RedisStore {
    /// Connects and asks each server that can be written what it is.
    ///
    /// # Errors
    /// When one cannot be reached, does not answer or refuses.
    pub async fn servers(&self) -> Result<Vec<Server>, StoreError> {
        let mut info = self.link.ask_each(&redis::cmd("INFO")).await.map_err(to_store_error)?;
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg("appendfsync");
        // Many providers do not allow it.
        let mut synced = self.link.ask_each(&command).await.unwrap_or_default();
        let servers = std::mem::take(&mut info).into_iter().map(|(address, info)| {
            let syncs = synced.remove(&address).and_then(setting);
            Server::read(address, info, syncs).map_err(to_store_error)
        });
        servers.collect()
    }

    /// Refuses servers that are too old or may evict records; see [`Options::allow_eviction`](super::Options).
    ///
    /// # Errors
    /// When one of them is, or cannot be asked.
    pub async fn check(&self) -> Result<Vec<Server>, StoreError> {
        let servers = self.servers().await?;
        let fault = servers.iter().find_map(|server| server.fault(self.options.allow_eviction));
        self.refuse(fault.clone());
        match fault {
            Some(text) => Err(StoreError::new(ErrorKind::Unavailable, text)),
            None => Ok(servers),
        }
    }
}

fn setting(value: Value) -> Option<String> {
    let settings: BTreeMap<String, String> = redis::from_redis_value(value).ok()?;
    settings.into_values().next()
}

// === impl Server ===

impl Server {
    fn read(address: String, info: Value, syncs: Option<String>) -> Result<Self, RedisError> {
        let text: String = redis::from_redis_value(info)?;
        let field = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            value.unwrap_or_default().trim()
        };
        let number = |name| field(name).parse().unwrap_or_default();
        Ok(Self {
            address,
            version: field("redis_version").to_owned(),
            eviction: field("maxmemory_policy").to_owned(),
            memory_max: number("maxmemory"),
            memory_used: number("used_memory"),
            appends: field("aof_enabled") == "1",
            syncs,
            replicas: field("connected_slaves").parse().unwrap_or_default(),
        })
    }

    /// Whether it may evict records, also later when it is full.
    #[must_use]
    pub fn can_evict(&self) -> bool {
        self.eviction != "noeviction"
    }

    fn fault(&self, allows_eviction: bool) -> Option<String> {
        let name = if self.address.is_empty() { "Redis" } else { &self.address };
        let major = self.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < VERSION_MIN) {
            return Some(format!("{name} has version {}: {VERSION_MIN}.0 or newer is needed", self.version));
        }
        if self.can_evict() && !allows_eviction {
            let policy = &self.eviction;
            return Some(format!(
                "{name} has maxmemory-policy {policy}, by which it may drop records and let a repeat execute: set noeviction"
            ));
        }
        None
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, version, eviction, memory_max, memory_used, appends, syncs, replicas } = self;
        if !address.is_empty() {
            write!(f, "{address}: ")?;
        }
        write!(f, "version {version}, {eviction}, {} MiB used", memory_used >> 20)?;
        if *memory_max > 0 {
            write!(f, " of {}", memory_max >> 20)?;
        }
        match (appends, syncs) {
            (false, _) => write!(f, ", no append-only file: a restart loses records")?,
            (true, Some(syncs)) => write!(f, ", append-only file synced {syncs}")?,
            (true, None) => write!(f, ", append-only file")?,
        }
        write!(f, ", {replicas} replicas")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(info: &str) -> Server {
        Server::read(String::new(), Value::BulkString(info.into()), Some("always".to_owned())).unwrap()
    }

    #[test]
    fn servers_that_are_too_old_or_may_evict_are_refused() {
        for (info, allows_eviction, fault) in [
            ("redis_version:7.0.0\r\nmaxmemory_policy:noeviction\r\n", false, None),
            ("redis_version:10.1.2\r\nmaxmemory_policy:noeviction\r\n", false, None),
            ("redis_version:6.2.14\r\nmaxmemory_policy:noeviction\r\n", true, Some("7.0 or newer is needed")),
            ("maxmemory_policy:noeviction\r\n", false, Some("7.0 or newer is needed")),
            ("redis_version:7.2.4\r\nmaxmemory_policy:volatile-lru\r\n", false, Some("set noeviction")),
            ("redis_version:7.2.4\r\nmaxmemory_policy:volatile-lru\r\n", true, None),
        ] {
            let found = server(info).fault(allows_eviction);
            assert_eq!(found.is_some(), fault.is_some(), "{info}: {found:?}");
            assert!(found.unwrap_or_default().contains(fault.unwrap_or_default()), "{info}");
        }
    }

    #[test]
    fn a_server_says_what_it_keeps() {
        let info = "redis_version:7.0.15\r\nused_memory:3145728\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n\
                    aof_enabled:1\r\nconnected_slaves:2\r\n";
        let expected = "version 7.0.15, noeviction, 3 MiB used, append-only file synced always, 2 replicas";
        assert_eq!(server(info).to_string(), expected);
    }
}
