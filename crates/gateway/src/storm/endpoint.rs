//! An address: where to connect and what to ask for.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use http::Uri;
use http::uri::PathAndQuery;
use tokio::net::TcpStream;

use super::template::{NumberedKey, Template};

/// Longest wait for the first connection, which only finds out whether anybody listens.
const FIRST_CONNECT_MAX: Duration = Duration::from_secs(5);

/// An `http://` address whose path and query may hold placeholders.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    url: Template,
    authority: String,
    host: String,
    port: u16,
}

// === impl Endpoint ===

impl Endpoint {
    /// The value of the `Host` header.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn as_str(&self) -> &str {
        self.url.as_str()
    }

    pub(super) fn names_the_key(&self) -> bool {
        self.url.names_the_key()
    }

    /// The path and query for one key, as it goes into the request line.
    pub(super) fn path(&self, key: &NumberedKey) -> Uri {
        path_of(&self.url.fill(key)).expect("the address was tried with a sample key when it was parsed")
    }

    /// The socket address that answers: the first one of the name that accepts a connection.
    ///
    /// # Errors
    ///
    /// The name cannot be resolved, or nobody accepts within 5 s per address.
    pub(super) async fn resolve(&self) -> anyhow::Result<SocketAddr> {
        let addresses = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let addresses = addresses.with_context(|| format!("cannot resolve the host of {}", self.as_str()))?;
        let mut failure = "the name has no address".to_owned();
        for address in addresses {
            match tokio::time::timeout(FIRST_CONNECT_MAX, TcpStream::connect(address)).await {
                Ok(Ok(_)) => return Ok(address),
                Ok(Err(error)) => failure = format!("{address}: {error}"),
                Err(_) => {
                    failure = format!("{address}: no answer within {}", humantime::format_duration(FIRST_CONNECT_MAX))
                }
            }
        }
        bail!("cannot connect to {}: {failure}", self.as_str())
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url = Template::new(text);
        let filled = url.fill(&NumberedKey::sample());
        let uri: Uri =
            filled.parse().map_err(|error| format!("{error}; an address looks like http://host:8000/path"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(
                    "storm speaks plain http only, not https: give the address behind the TLS terminator".to_owned()
                );
            }
            Some(_) | None => return Err("the address must begin with http://".to_owned()),
        }
        let authority = uri.authority().ok_or("the address has no host")?;
        if authority.as_str().contains('@') {
            return Err("a user name in the address is not sent: use --header 'Authorization: ...'".to_owned());
        }
        if !text[..].to_ascii_lowercase().starts_with(&format!("http://{authority}").to_ascii_lowercase()) {
            return Err("placeholders are allowed in the path and the query, not in the host".to_owned());
        }
        path_of(&filled).ok_or("the path is not valid")?;
        Ok(Self {
            authority: authority.to_string(),
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(80),
            url,
        })
    }
}

fn path_of(url: &str) -> Option<Uri> {
    let uri: Uri = url.parse().ok()?;
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    Some(Uri::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_gives_host_port_and_the_path_of_each_key() {
        let endpoint: Endpoint = "http://[::1]:8000/api/{n}?reference={key}".parse().unwrap();
        let key = NumberedKey { number: 2, key: "abc".to_owned() };

        assert_eq!((endpoint.host.as_str(), endpoint.port), ("::1", 8000));
        assert_eq!(endpoint.authority(), "[::1]:8000");
        assert_eq!(endpoint.path(&key), "/api/2?reference=abc");
        assert!(endpoint.names_the_key());
    }

    #[test]
    fn the_port_is_80_and_the_path_is_the_root_unless_given() {
        let endpoint: Endpoint = "http://localhost".parse().unwrap();

        assert_eq!(endpoint.port, 80);
        assert_eq!(endpoint.path(&NumberedKey::sample()), "/");
    }

    #[test]
    fn what_cannot_be_stormed_is_refused_with_the_reason() {
        let refusal = |text: &str| text.parse::<Endpoint>().unwrap_err();

        assert!(refusal("https://api.example/").contains("plain http only"));
        assert!(refusal("localhost:8000/api").contains("http://"));
        assert!(refusal("/api").contains("http://"));
        assert!(refusal("http://user:password@host/").contains("Authorization"));
        assert!(refusal("http://{key}.example/").contains("not in the host"));
        assert!(refusal("http://host/a b").contains("http://host:8000/path"));
    }
}
