//! Fields that belong to one connection (RFC 9110 section 7.6.1).

use http::{HeaderMap, HeaderName, header};

use super::{fields::Fields, protected::ProtectedHeaders};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// What the `Connection` of a message said.
#[derive(Debug, Default)]
pub(super) struct ConnectionOptions {
    /// The sender ends the connection behind this message.
    pub(super) close: bool,
    /// The sender wants another protocol; which one stands in `Upgrade`.
    pub(super) upgrade: bool,
    /// The fields that it named.
    named: Vec<HeaderName>,
}

// === impl ConnectionOptions ===

impl ConnectionOptions {
    /// Reads all `Connection` lines. Options that are no tokens name nothing and are passed over.
    pub(super) fn of(headers: &HeaderMap, fields: Fields) -> Self {
        let mut options = Self::default();
        if fields.connection {
            let lines = headers.get_all(header::CONNECTION).into_iter();
            for option in lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b',')) {
                options.add(option.trim_ascii());
            }
        }
        options
    }

    /// Whether it names a field that others rely on.
    pub(super) fn names_any_of(&self, protected: &ProtectedHeaders) -> bool {
        self.named.iter().any(|name| protected.contains(name))
    }

    /// Removes what ends at this hop, except `TE` and `Upgrade`, whose meaning may not.
    pub(super) fn remove_from(&self, headers: &mut HeaderMap, fields: Fields) {
        if fields.connection {
            headers.remove(header::CONNECTION);
        }
        if fields.keep_alive {
            headers.remove(KEEP_ALIVE);
            headers.remove(PROXY_CONNECTION);
        }
        if fields.transfer_encoding {
            headers.remove(header::TRANSFER_ENCODING);
        }
        for name in &self.named {
            headers.remove(name);
        }
    }

    fn add(&mut self, option: &[u8]) {
        if option.eq_ignore_ascii_case(b"keep-alive") || option.eq_ignore_ascii_case(b"te") {
            return;
        }
        self.close |= option.eq_ignore_ascii_case(b"close");
        if option.eq_ignore_ascii_case(b"upgrade") {
            self.upgrade = true;
        } else if let Ok(name) = HeaderName::from_bytes(option) {
            self.named.push(name);
        }
    }
}
