//! Where a PostgreSQL server is.

use std::{fmt, str::FromStr, time::Duration};

use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

// === types ===

/// Where a database is and who asks: `postgres://user:password@host:port/database?option=value`, as libpq reads it.
/// It is shown without its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Address(Config);

/// Not the address of a database. What was written is not repeated, since it may hold a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It cannot be read.
    #[error("the address of PostgreSQL cannot be read: write postgres://user:password@host/database")]
    Unreadable(#[source] tokio_postgres::Error),
    /// Encryption is asked for.
    #[error("sslmode=require is not supported in this version: write sslmode=disable or leave it out")]
    Encrypted,
}

// === impl Address ===

impl Address {
    /// Long enough for a distant server, short enough for callers to be told.
    const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

    pub(super) fn config(&self) -> &Config {
        &self.0
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let mut config: Config = text.parse().map_err(AddressError::Unreadable)?;
        if config.get_ssl_mode() == SslMode::Require {
            return Err(AddressError::Encrypted);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Self::CONNECT_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("oncegate");
        }
        Ok(Self(config))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(config) = self;
        f.write_str("postgres://")?;
        if let Some(user) = config.get_user() {
            write!(f, "{user}@")?;
        }
        for (index, host) in config.get_hosts().iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}")?,
                Host::Unix(path) => write!(f, "{comma}{}", path.display())?,
            }
            // One port may be given for all hosts.
            if let Some(port) = config.get_ports().get(index).or(config.get_ports().first()) {
                write!(f, ":{port}")?;
            }
        }
        write!(f, "/{}", config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}
