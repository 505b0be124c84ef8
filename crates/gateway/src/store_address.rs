//! Where records live: the addresses of `--store`.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use oncegate_core::{MemoryStore, Store};
use oncegate_store::{
    observer::{Observer, Unobserved},
    postgres::{self, Migrator, PostgresStore},
    redis::{self, RedisStore},
    sqlite::{Options, SqliteStore},
};

// === types ===

/// The address of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreAddress {
    /// `sqlite://FILE`: a file on a local disk.
    Sqlite(PathBuf),
    /// `postgres://USER:PASSWORD@HOST/DATABASE`, also as `postgresql://`; shown without its password.
    Postgres(Box<postgres::Address>),
    /// `redis://HOST`, `rediss://HOST`, `redis-cluster://HOST,HOST`, `rediss-cluster://…`; shown without its password.
    Redis(Box<redis::Address>),
    /// `memory://single-process`: for tests and demonstrations. The address says what it is good for.
    Memory,
}

/// Not the address of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    /// No file is named.
    #[error(
        "{0:?} names no file: write sqlite://FILE, such as sqlite://oncegate.db or sqlite:///var/lib/oncegate/oncegate.db"
    )]
    NoFile(String),
    /// One of PostgreSQL that cannot be read. It is not repeated, since it may hold a password.
    #[error("{0}")]
    Postgres(String),
    /// One of Redis that cannot be read. It is not repeated either.
    #[error("{0}")]
    Redis(String),
    /// Something else.
    #[error(
        "{0} is not the address of a store: write sqlite://FILE, postgres://HOST/DATABASE, redis://HOST, or memory://single-process for tests"
    )]
    Unrecognised(String),
}

/// What can be said about a store without changing anything.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It is there.
    There,
    /// It will be made.
    WillBeMade,
}

// === impl StoreAddress ===

impl StoreAddress {
    const SQLITE: &str = "sqlite://";
    const MEMORY: &str = "memory://single-process";
    const POSTGRES: [&str; 2] = ["postgres://", "postgresql://"];

    /// Opens the store. Blocks while it reads the disk; a server is connected to when it is first asked.
    ///
    /// A store waits for another process's transaction only a part of `timeout`, so that it can say
    /// itself what it waits for.
    pub(crate) fn open(&self, timeout: Duration, redis: &redis::Options) -> anyhow::Result<Arc<dyn Store>> {
        self.open_observed(timeout, redis, Arc::new(Unobserved))
    }

    /// The same, for somebody who wants to know how the store works.
    pub(crate) fn open_observed(
        &self,
        timeout: Duration,
        redis: &redis::Options,
        observer: Arc<dyn Observer>,
    ) -> anyhow::Result<Arc<dyn Store>> {
        match self {
            Self::Sqlite(path) => {
                let mut options = Options::default();
                options.observer = observer;
                options.busy_timeout = options.busy_timeout.min(timeout / 2);
                let store = SqliteStore::open(path, options).with_context(|| format!("store {self}"))?;
                Ok(Arc::new(store))
            }
            Self::Postgres(address) => {
                let mut options = postgres::Options::default();
                options.observer = observer;
                Ok(Arc::new(PostgresStore::open(address, options)))
            }
            Self::Redis(address) => {
                let store = RedisStore::open(address, redis.clone()).with_context(|| format!("store {self}"))?;
                Ok(Arc::new(store))
            }
            Self::Memory => Ok(Arc::new(MemoryStore::single_process())),
        }
    }

    /// Asks the servers of a Redis what they are; of another store nothing.
    ///
    /// # Errors
    /// When one cannot be reached, refuses, or is not as records need it.
    pub(crate) async fn servers(&self, redis: &redis::Options) -> anyhow::Result<Vec<redis::Server>> {
        let Self::Redis(address) = self else { return Ok(Vec::new()) };
        let looking = async { RedisStore::open(address, redis.clone())?.check().await };
        looking.await.with_context(|| format!("store {self}"))
    }

    /// Brings the schema of a store on a server up to date; a file's is when it is opened. Without `migrates` it only
    /// looks.
    ///
    /// # Errors
    /// When the server cannot be reached or refuses, or when the schema is not up to date and must be left as it is.
    pub(crate) async fn prepare(&self, migrates: bool) -> anyhow::Result<()> {
        if migrates {
            let Self::Postgres(address) = self else { return Ok(()) };
            let migrating = async { Migrator::connect(address).await?.migrate().await };
            let steps = migrating.await.with_context(|| format!("store {self}"))?;
            tracing::info!(steps, "the schema is up to date");
            return Ok(());
        }
        let behind = self.behind().await?;
        anyhow::ensure!(
            behind == 0,
            "store {self}: its schema lacks {behind} migrations, and [store] migrate is false: run `oncegate migrate` \
             with an address whose user owns the schema, then start again"
        );
        Ok(())
    }

    /// How many migrations the schema of a store that is there lacks; changes nothing.
    ///
    /// # Errors
    /// When the server cannot be reached, refuses, or has a newer schema.
    pub(crate) async fn behind(&self) -> anyhow::Result<usize> {
        match self {
            Self::Postgres(address) => {
                let looking = async { Migrator::connect(address).await?.pending().await };
                looking.await.with_context(|| format!("store {self}"))
            }
            Self::Sqlite(path) if self.presence()? == Presence::There => {
                let path = path.clone();
                let looking = tokio::task::spawn_blocking(move || SqliteStore::pending(path));
                looking.await.context("looking at the store failed")?.with_context(|| format!("store {self}"))
            }
            Self::Sqlite(_) | Self::Redis(_) | Self::Memory => Ok(0),
        }
    }

    /// Whether opening would find a store or make one.
    ///
    /// # Errors
    /// When it could do neither.
    pub(crate) fn presence(&self) -> anyhow::Result<Presence> {
        let path = match self {
            Self::Sqlite(path) => path,
            Self::Postgres(_) | Self::Redis(_) => return Ok(Presence::There),
            Self::Memory => return Ok(Presence::WillBeMade),
        };
        if path.try_exists().with_context(|| format!("{} cannot be looked at", path.display()))? {
            return Ok(Presence::There);
        }
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        anyhow::ensure!(directory.is_dir(), "{} is not a directory: make it first", directory.display());
        Ok(Presence::WillBeMade)
    }
}

impl Default for StoreAddress {
    /// In the working directory.
    fn default() -> Self {
        Self::Sqlite(PathBuf::from("oncegate.db"))
    }
}

impl FromStr for StoreAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text == Self::MEMORY {
            return Ok(Self::Memory);
        }
        if let Some(file) = text.strip_prefix(Self::SQLITE) {
            if file.is_empty() || file.ends_with('/') || file == ":memory:" {
                return Err(AddressError::NoFile(text.to_owned()));
            }
            return Ok(Self::Sqlite(PathBuf::from(file)));
        }
        if Self::POSTGRES.iter().any(|scheme| text.starts_with(scheme)) {
            let address =
                text.parse().map_err(|error: postgres::AddressError| AddressError::Postgres(error.to_string()));
            return Ok(Self::Postgres(Box::new(address?)));
        }
        if redis::Address::is_meant_by(text) {
            let address = text.parse().map_err(|error: redis::AddressError| AddressError::Redis(error.to_string()));
            return Ok(Self::Redis(Box::new(address?)));
        }
        // What stands before the host may be a password.
        if text.contains('@') {
            let scheme = text.split_once("://").map(|(scheme, _)| scheme);
            let scheme = scheme.map_or_else(|| "it".to_owned(), |scheme| format!("\"{scheme}://...\""));
            return Err(AddressError::Unrecognised(scheme));
        }
        Err(AddressError::Unrecognised(format!("{text:?}")))
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "{}{}", Self::SQLITE, path.display()),
            Self::Postgres(address) => address.fmt(f),
            Self::Redis(address) => address.fmt(f),
            Self::Memory => f.write_str(Self::MEMORY),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_back_as_they_are_shown() {
        for text in [
            "sqlite://oncegate.db",
            "sqlite:///var/lib/oncegate.db",
            "sqlite://./a b.db",
            "memory://single-process",
            "postgres://app@db.internal:5433/shop",
            "postgres://app@a:5432,b:5433/shop",
            "redis://app@cache.internal:6380/3",
            "rediss-cluster://a:6379,b:6379",
        ] {
            assert_eq!(text.parse::<StoreAddress>().unwrap().to_string(), text);
        }
        assert_eq!(StoreAddress::default().to_string(), "sqlite://oncegate.db");
    }

    #[test]
    fn an_address_of_postgresql_is_shown_without_its_password() {
        for text in ["postgres://app:hunter2@db/shop", "postgresql://app:hunter2@db/shop?sslmode=disable"] {
            assert_eq!(text.parse::<StoreAddress>().unwrap().to_string(), "postgres://app@db:5432/shop");
            assert!(!format!("{:?}", text.parse::<StoreAddress>()).contains("hunter2"));
        }
    }

    #[test]
    fn an_address_of_redis_is_shown_without_its_password() {
        let address = "redis://app:hunter2@cache/1".parse::<StoreAddress>();
        assert_eq!(address.as_ref().unwrap().to_string(), "redis://app@cache:6379/1");
        assert!(!format!("{address:?}").contains("hunter2"));
    }

    #[test]
    fn other_addresses_are_refused_by_name_and_without_their_passwords() {
        let refused = |text: &str| text.parse::<StoreAddress>().unwrap_err().to_string();
        for text in ["redis://u:hunter2@r/name", "redis-cluster://u:hunter2@a,b/1", "rediss://u:hunter2@r?x=hunter2"] {
            assert!(refused(text).contains("address of Redis"), "{text}");
            assert!(!refused(text).contains("hunter2"), "{text}");
        }
        for text in ["postgres://u:hunter2@db:port/x", "postgresql://u:hunter2@db/x?sslmode=disable&a=hunter2"] {
            assert!(refused(text).contains("PostgreSQL"), "{text}");
            assert!(!refused(text).contains("hunter2"), "{text}");
        }
        for text in ["mysql://u:hunter2@db/x", "u:hunter2@db"] {
            assert!(refused(text).contains("is not the address of a store"), "{text}");
            assert!(!refused(text).contains("hunter2"), "{text}");
        }
        for text in ["sqlite://", "sqlite://dir/", "sqlite://:memory:"] {
            assert!(refused(text).contains("names no file"), "{text}");
        }
        for text in ["", "oncegate.db", "memory:", "memory://", "SQLITE://x"] {
            assert!(refused(text).contains("is not the address of a store"), "{text}");
        }
    }
}
