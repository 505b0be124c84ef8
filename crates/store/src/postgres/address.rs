//! Where a PostgreSQL server is.

use std::{fmt, str::FromStr, time::Duration};

use tokio_postgres::{
    Config,
    config::{Host, TargetSessionAttrs},
};

mod connect;
mod encryption;
#[cfg(feature = "postgres-tls")]
mod tls;

pub use self::connect::ConnectError;
use self::encryption::Encryption;
#[cfg(feature = "postgres-tls")]
pub(super) use self::tls::advice;

// === types ===

/// Where a database is and who asks: `postgres://user:password@host:port/database?option=value`, as libpq reads it
/// but for what follows. It is shown without its password.
///
/// Of several hosts (`postgres://a,b/database`) the one is taken that can be written to, unless
/// `target_session_attrs` says otherwise.
///
/// | `sslmode` | connection |
/// |---|---|
/// | `disable` | in clear |
/// | `prefer`, the default | encrypted where the server offers it; whoever it is |
/// | `require`, `verify-full` | encrypted; the certificate is by a known authority, and for this host |
///
/// The authorities are the system's, or those in the file that `sslrootcert` names, which is read here; who names one
/// and says nothing more requires. Other than in libpq, `require` knows to whom it speaks. Without the feature `postgres-tls` nothing is encrypted, and both are
/// refused.
#[derive(Clone)]
pub struct Address {
    config: Config,
    encryption: Encryption,
    #[cfg(feature = "postgres-tls")]
    connector: Option<tls::Connector>,
}

/// Not the address of a database. What was written is not repeated, since it may hold a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It cannot be read.
    #[error("the address of PostgreSQL cannot be read: write postgres://user:password@host/database")]
    Unreadable(#[source] tokio_postgres::Error),
    /// Another way of encryption is asked for.
    #[error(
        "sslmode can be disable, prefer, require or verify-full (verify-ca would take any host's certificate for the database's)"
    )]
    SslMode,
    /// The authorities are of no use.
    #[error("sslrootcert={file}: {why}")]
    Authorities {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// The system's authorities are of no use.
    #[error("the system's certificate authorities cannot be read ({0}): name a file of them, sslrootcert=FILE")]
    System(String),
    /// This build has no TLS.
    #[error("sslmode=require needs the feature postgres-tls, which this build does not have: write sslmode=disable")]
    NoTls,
}

// === impl Address ===

impl Address {
    /// Long enough for a distant server, short enough for callers to be told.
    const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

    /// The same server, another database.
    pub(super) fn with_database(&self, name: &str) -> Self {
        let mut address = self.clone();
        address.config.dbname(name);
        address
    }

    #[cfg(feature = "postgres-tls")]
    fn new(config: Config, encryption: Encryption) -> Result<Self, AddressError> {
        let connector = tls::Connector::new(&config, &encryption)?;
        Ok(Self { config, encryption, connector })
    }

    #[cfg(not(feature = "postgres-tls"))]
    fn new(mut config: Config, encryption: Encryption) -> Result<Self, AddressError> {
        use tokio_postgres::config::SslMode;

        if config.get_ssl_mode() == SslMode::Require {
            return Err(AddressError::NoTls);
        }
        config.ssl_mode(SslMode::Disable);
        Ok(Self { config, encryption })
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (text, encryption) = Encryption::split_off(text)?;
        let mut config: Config = text.parse().map_err(AddressError::Unreadable)?;
        if let Some(mode) = encryption.mode {
            config.ssl_mode(mode);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(Self::CONNECT_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("oncegate");
        }
        // A standby can neither claim nor say that a key is new.
        if config.get_hosts().len() > 1 && config.get_target_session_attrs() == TargetSessionAttrs::Any {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Self::new(config, encryption)
    }
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.config == other.config && self.encryption == other.encryption
    }
}

impl Eq for Address {}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.config;
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
