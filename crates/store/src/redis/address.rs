//! Where Redis is.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use percent_encoding::percent_decode_str;
use redis::{
    Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion, RedisConnectionInfo, RedisError,
    io::tcp::TcpSettings,
};

// === types ===

/// Where Redis is and who asks. It is shown without its password.
///
/// | address | server |
/// |---|---|
/// | `redis://user:password@host:port/database` | one server, in clear |
/// | `rediss://…` | one server, over TLS |
/// | `redis-cluster://user:password@host:port,host:port` | a Cluster, found through any of these nodes |
/// | `rediss-cluster://…` | the same over TLS |
///
/// Everything but the host may be left out; the port is 6379 then and the user `default`. Over TLS the certificate must
/// be for this host, by an authority that the system knows or that stands in the file `?cacert=FILE`, which is read
/// here. TLS needs the feature `redis-tls`.
#[derive(Clone)]
pub struct Address {
    /// As it was written.
    text: Arc<str>,
    scheme: Scheme,
    hosts: Vec<(String, u16)>,
    settings: RedisConnectionInfo,
    /// Certificates of authorities, as PEM.
    authorities: Option<Arc<[u8]>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scheme {
    name: &'static str,
    is_cluster: bool,
    is_encrypted: bool,
}

/// Not the address of a Redis. What was written is not repeated, since it may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It cannot be read.
    #[error("the address of Redis cannot be read ({0}): write {FORM}")]
    Unreadable(&'static str),
    /// An option that there is not.
    #[error("the address of Redis has an option that there is not: only cacert=FILE is known, and only over TLS")]
    Option,
    /// The authorities are of no use.
    #[error("cacert={file}: {why}")]
    Authorities {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// This build has no TLS.
    #[error("{0}:// needs the feature redis-tls, which this build does not have")]
    NoTls(&'static str),
}

const FORM: &str = "redis://USER:PASSWORD@HOST:PORT/DATABASE, or redis-cluster://HOST:PORT,HOST:PORT";

const SCHEMES: [Scheme; 4] = [
    Scheme { name: "redis", is_cluster: false, is_encrypted: false },
    Scheme { name: "rediss", is_cluster: false, is_encrypted: true },
    Scheme { name: "redis-cluster", is_cluster: true, is_encrypted: false },
    Scheme { name: "rediss-cluster", is_cluster: true, is_encrypted: true },
];

const PORT: u16 = 6379;

// === impl Address ===

impl Address {
    /// Whether a text is meant as such an address.
    #[must_use]
    pub fn is_meant_by(text: &str) -> bool {
        text.split_once("://").is_some_and(|(name, _)| SCHEMES.iter().any(|scheme| scheme.name == name))
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.scheme.is_cluster
    }

    #[cfg(feature = "redis-tls")]
    pub(super) fn is_encrypted(&self) -> bool {
        self.scheme.is_encrypted
    }

    pub(super) fn nodes(&self) -> Vec<ConnectionInfo> {
        self.hosts.iter().map(|(host, port)| self.node(host, *port)).collect()
    }

    fn node(&self, host: &str, port: u16) -> ConnectionInfo {
        let host = host.to_owned();
        let address = match self.scheme.is_encrypted {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        };
        let node = address.into_connection_info().expect("an address is always one of a connection");
        node.set_redis_settings(self.settings.clone()).set_tcp_settings(tcp_settings())
    }

    pub(super) fn client(&self) -> Result<Client, RedisError> {
        let node = self.nodes().into_iter().next().expect("an address has a host");
        #[cfg(feature = "redis-tls")]
        if let Some(certificates) = self.certificates() {
            return Client::build_with_tls(node, certificates);
        }
        Client::open(node)
    }

    #[cfg(feature = "redis-tls")]
    pub(super) fn certificates(&self) -> Option<redis::TlsCertificates> {
        let root_cert = Some(self.authorities.as_ref()?.to_vec());
        Some(redis::TlsCertificates { client_tls: None, root_cert })
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (name, rest) = text.split_once("://").ok_or(AddressError::Unreadable("it has no scheme"))?;
        let scheme = SCHEMES.into_iter().find(|scheme| scheme.name == name);
        let scheme = scheme.ok_or(AddressError::Unreadable("its scheme is another's"))?;
        if scheme.is_encrypted && !cfg!(feature = "redis-tls") {
            return Err(AddressError::NoTls(scheme.name));
        }
        // A password may have any character, if it does not escape them.
        let (who, place) = rest.rsplit_once('@').map_or((None, rest), |(who, place)| (Some(who), place));
        let (place, options) = place.split_once('?').unwrap_or((place, ""));
        let (hosts, database) = place.split_once('/').unwrap_or((place, ""));
        let hosts = hosts.split(',').map(host_and_port).collect::<Result<Vec<_>, _>>()?;
        if hosts.len() > 1 && !scheme.is_cluster {
            return Err(AddressError::Unreadable("several hosts are a Cluster"));
        }
        let settings = settings(who, database)?;
        if scheme.is_cluster && settings.db() != 0 {
            return Err(AddressError::Unreadable("a Cluster has no databases"));
        }
        let authorities = authorities(options, scheme)?;
        Ok(Self { text: text.into(), scheme, hosts, settings, authorities })
    }
}

/// How every connection is made. The driver of a Cluster takes none of it from the addresses of the nodes.
pub(super) fn tcp_settings() -> TcpSettings {
    // A call does not wait until the one before it has been acknowledged.
    let settings = TcpSettings::default().set_nodelay(true);
    #[cfg(target_os = "linux")]
    // A peer that is gone without a word is noticed.
    let settings = settings.set_user_timeout(Duration::from_secs(10));
    settings
}

fn settings(who: Option<&str>, database: &str) -> Result<RedisConnectionInfo, AddressError> {
    // With the third version of the protocol the end of a connection is noticed at once, not by the next call.
    let settings = RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3);
    // It would need a right of its own, and Redis 7.0 does not know it.
    let mut settings = settings.set_skip_set_lib_name();
    if let Some(who) = who {
        let (user, password) = who.split_once(':').unwrap_or((who, ""));
        if !user.is_empty() {
            settings = settings.set_username(decoded(user)?);
        }
        if !password.is_empty() {
            settings = settings.set_password(decoded(password)?);
        }
    }
    if !database.is_empty() {
        let number: u16 = database.parse().map_err(|_| AddressError::Unreadable("a database is a number"))?;
        settings = settings.set_db(number.into());
    }
    Ok(settings)
}

fn decoded(text: &str) -> Result<String, AddressError> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| AddressError::Unreadable("its user or password is not UTF-8 text"))
}

/// An address of IPv6 stands in brackets.
fn host_and_port(text: &str) -> Result<(String, u16), AddressError> {
    let (host, port) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':').unwrap_or(port)),
        None => text.split_once(':').unwrap_or((text, "")),
    };
    if host.is_empty() {
        return Err(AddressError::Unreadable("a host is missing"));
    }
    let port = if port.is_empty() { Ok(PORT) } else { port.parse() };
    Ok((host.to_owned(), port.map_err(|_| AddressError::Unreadable("a port is a number"))?))
}

fn authorities(options: &str, scheme: Scheme) -> Result<Option<Arc<[u8]>>, AddressError> {
    if options.is_empty() {
        return Ok(None);
    }
    let file = options.strip_prefix("cacert=").filter(|file| scheme.is_encrypted && !file.contains('&'));
    let file = percent_decode_str(file.ok_or(AddressError::Option)?).decode_utf8_lossy().into_owned();
    let useless = |file: String, why: String| AddressError::Authorities { file, why };
    let pem = match std::fs::read(&file) {
        Ok(pem) => pem,
        Err(error) => return Err(useless(file, format!("cannot be read: {error}"))),
    };
    if !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
        return Err(useless(file, "holds no certificate of an authority".to_owned()));
    }
    Ok(Some(pem.into()))
}

impl PartialEq for Address {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text && self.authorities == other.authorities
    }
}

impl Eq for Address {}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme.name)?;
        if let Some(user) = self.settings.username() {
            write!(f, "{user}@")?;
        }
        for (index, (host, port)) in self.hosts.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match host.contains(':') {
                true => write!(f, "{comma}[{host}]:{port}")?,
                false => write!(f, "{comma}{host}:{port}")?,
            }
        }
        match self.settings.db() {
            0 => Ok(()),
            database => write!(f, "/{database}"),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

#[cfg(test)]
mod tests;
