//! The options of an address that the driver does not know, or reads otherwise.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use tokio_postgres::config::SslMode;

use super::AddressError;

// === types ===

/// How a connection is encrypted, as the address says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Encryption {
    /// `None`: nothing is said.
    pub(super) mode: Option<SslMode>,
    /// The file with the certificates of authorities; `None`: the system's.
    pub(super) authorities: Option<String>,
}

// === impl Encryption ===

impl Encryption {
    /// Takes `sslmode` and `sslrootcert` out of an address and returns what the driver can read.
    pub(super) fn split_off(address: &str) -> Result<(String, Self), AddressError> {
        let mut encryption = Self::default();
        // As the driver finds the options: a password may have a question mark.
        let place_begins = address.find('@').unwrap_or(0);
        let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| address.starts_with(scheme));
        let Some(options_begin) = address[place_begins..].find('?').filter(|_| is_url) else {
            return Ok((address.to_owned(), encryption));
        };
        let (place, options) = address.split_at(place_begins + options_begin);
        let (mut rest, mut is_judged) = (Vec::new(), false);
        for option in options[1..].split('&') {
            match option.split_once('=') {
                Some(("sslmode", value)) => encryption.mode = Some(mode(value)?),
                Some(("sslrootcert", value)) => {
                    encryption.authorities = authorities(value);
                    is_judged = true;
                }
                _ => rest.push(option),
            }
        }
        if is_judged {
            encryption.mode.get_or_insert(SslMode::Require);
        }
        let rest = rest.join("&");
        let separator = if rest.is_empty() { "" } else { "?" };
        Ok((format!("{place}{separator}{rest}"), encryption))
    }
}

fn mode(word: &str) -> Result<SslMode, AddressError> {
    match word {
        "disable" => Ok(SslMode::Disable),
        "prefer" => Ok(SslMode::Prefer),
        "require" | "verify-full" => Ok(SslMode::Require),
        _ => Err(AddressError::SslMode),
    }
}

/// `system` is libpq's word for the system's authorities.
fn authorities(value: &str) -> Option<String> {
    let file: Cow<'_, str> = percent_decode_str(value).decode_utf8_lossy();
    (file != "system").then(|| file.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split_off(address: &str) -> (String, Encryption) {
        Encryption::split_off(address).unwrap()
    }

    #[test]
    fn the_driver_gets_every_option_but_ours() {
        let (rest, encryption) =
            split_off("postgres://u:p?w@h/d?a=1&sslmode=verify-full&sslrootcert=%2Fca%20s.pem&b=2");
        assert_eq!(rest, "postgres://u:p?w@h/d?a=1&b=2");
        assert_eq!((encryption.mode, encryption.authorities.as_deref()), (Some(SslMode::Require), Some("/ca s.pem")));
        let (rest, encryption) = split_off("postgresql://h/d?sslrootcert=system");
        assert_eq!((&*rest, encryption.authorities), ("postgresql://h/d", None));
        assert_eq!(encryption.mode, Some(SslMode::Require), "who names authorities wants them to judge");
    }

    #[test]
    fn what_has_no_options_stays_as_it_is() {
        for address in ["postgres://h/d", "host=h dbname=d?sslmode=x", "postgres://u:p?sslmode=x@h/d"] {
            assert_eq!(split_off(address), (address.to_owned(), Encryption::default()));
        }
    }

    #[test]
    fn a_mode_that_would_check_less_than_it_says_is_refused() {
        for mode in ["verify-ca", "allow", "REQUIRE", ""] {
            let refused = Encryption::split_off(&format!("postgres://h/d?sslmode={mode}"));
            assert!(matches!(refused, Err(AddressError::SslMode)), "{mode}");
        }
    }
}
