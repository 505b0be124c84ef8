//! The computation: a request's head, then its body chunk by chunk.

use std::fmt;

use sha2::{Digest, Sha256};

use super::{
    Fingerprint,
    content::{Content, Found, Kind},
    fields::FieldHasher,
    gzip::Gzip,
    media_type::{MediaType, trim},
    query,
    rules::{Mode, Rules},
};

// === types ===

/// What of a request's head enters its fingerprint. Other fields never do: a retry may have another
/// signature, date or trace.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestHead<'a> {
    /// As it was sent.
    pub method: &'a str,
    /// As the caller normalised it, without the query.
    pub path: &'a str,
    /// What follows `?`. None and empty are the same.
    pub query: Option<&'a str>,
    /// The value of `Content-Type`. None and empty are the same.
    pub content_type: Option<&'a [u8]>,
    /// The value of `Content-Encoding`. None, empty and `identity` are the same.
    pub content_encoding: Option<&'a [u8]>,
}

/// Computes the fingerprint of one request while its body arrives. No I/O, bounded memory.
///
/// ```
/// use oncegate_core::fingerprint::{Fingerprint, Fingerprinter, RequestHead, Rules};
///
/// # fn main() -> Result<(), oncegate_core::fingerprint::DecodedTooLarge> {
/// let rules = Rules::default();
/// let head = RequestHead {
///     method: "POST",
///     path: "/api/payments",
///     content_type: Some(b"application/json"),
///     ..RequestHead::default()
/// };
/// let mut fingerprinter = Fingerprinter::new(&rules, &head);
/// fingerprinter.update(br#"{"amount": 1212, "#)?;
/// fingerprinter.update(br#""customer": "c1"}"#)?;
/// let repeat = Fingerprint::of(&rules, &head, br#"{"customer":"c1","amount":1212}"#)?;
/// assert_eq!(fingerprinter.finish()?, repeat);
/// # Ok(())
/// # }
/// ```
pub struct Fingerprinter {
    rules_digest: [u8; Rules::DIGEST_LENGTH],
    /// Has seen method, path and query.
    hasher: FieldHasher,
    media_type: MediaType,
    /// The content coding in lower case; empty when there is none.
    coding: Vec<u8>,
    body: Body,
}

/// A compressed body decodes to more bytes than the rules allow: the request must be refused (413),
/// since reading on costs more than its sender paid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body decodes to more than {bytes_max} bytes, which is the limit")]
pub struct DecodedTooLarge {
    pub(super) bytes_max: u64,
}

enum Body {
    /// Read as it was sent.
    Sent(Content),
    /// Decoded; as it was sent, too, for the case that it cannot be.
    Gzip { sent: Sha256, gzip: Box<Gzip> },
}

// === impl Fingerprinter ===

impl Fingerprinter {
    /// First field of the hash; its number is [`Self::VERSION`].
    const DOMAIN: &'static [u8] = b"oncegate fingerprint 1";
    /// First byte of the fingerprint. It changes when anything below does.
    const VERSION: u8 = 1;

    /// Starts with the head of a request.
    #[must_use]
    pub fn new(rules: &Rules, head: &RequestHead<'_>) -> Self {
        let mut hasher = rules.hasher();
        hasher.field(Self::DOMAIN);
        hasher.field(head.method.as_bytes());
        hasher.field(head.path.as_bytes());
        hasher.field(query::sort_parameters(head.query.unwrap_or_default()).as_bytes());

        let media_type = MediaType::parse(head.content_type.unwrap_or_default());
        let coding = coding(head.content_encoding.unwrap_or_default());
        let body = Body::new(rules, &media_type, &coding);
        Self { rules_digest: rules.digest(), hasher, media_type, coding, body }
    }

    /// Goes on with the body as it was sent. How it is cut into chunks does not matter.
    ///
    /// # Errors
    /// When a compressed body decodes to more than [`Rules::decoded_bytes_max`] bytes; from then on
    /// every call fails.
    pub fn update(&mut self, chunk: &[u8]) -> Result<(), DecodedTooLarge> {
        match &mut self.body {
            Body::Sent(content) => content.update(chunk),
            Body::Gzip { sent, gzip } => {
                sent.update(chunk);
                gzip.update(chunk)?;
            }
        }
        Ok(())
    }

    /// The fingerprint, when the whole body was given.
    ///
    /// # Errors
    /// As [`Self::update`].
    pub fn finish(self) -> Result<Fingerprint, DecodedTooLarge> {
        let (found, coding) = match self.body {
            Body::Sent(content) => (content.finish(), self.coding),
            Body::Gzip { sent, gzip } => match gzip.finish()? {
                Some(content) => (content.finish(), Vec::new()),
                None => (Found { kind: Kind::Bytes, digest: sent.finalize().into() }, self.coding),
            },
        };
        let media_type = match found.kind {
            Kind::Json | Kind::Multipart => self.media_type.essence(),
            Kind::Bytes => self.media_type.as_bytes(),
        };
        let mut hasher = self.hasher;
        hasher.field(media_type);
        hasher.field(&coding);
        hasher.field(found.kind.as_str().as_bytes());
        hasher.field(&found.digest);
        Ok(structured(self.rules_digest, &hasher.finish()))
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        match &self.body {
            Body::Sent(content) => content.held_bytes(),
            Body::Gzip { gzip, .. } => gzip.held_bytes(),
        }
    }
}

impl fmt::Debug for Fingerprinter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fingerprinter").field("rules", &self.rules_digest).finish_non_exhaustive()
    }
}

impl Fingerprint {
    /// The fingerprint of a request whose body is at hand. [`Fingerprinter`] does the same for a body
    /// that arrives in chunks.
    ///
    /// # Errors
    /// When a compressed body decodes to more than [`Rules::decoded_bytes_max`] bytes.
    pub fn of(rules: &Rules, head: &RequestHead<'_>, body: &[u8]) -> Result<Self, DecodedTooLarge> {
        let mut fingerprinter = Fingerprinter::new(rules, head);
        fingerprinter.update(body)?;
        fingerprinter.finish()
    }
}

// === impl Body ===

impl Body {
    fn new(rules: &Rules, media_type: &MediaType, coding: &[u8]) -> Self {
        if rules.mode() == Mode::Bytes {
            return Self::Sent(Content::new(None, rules));
        }
        match coding {
            b"" => Self::Sent(Content::new(media_type.form(), rules)),
            b"gzip" | b"x-gzip" => {
                let content = Content::new(media_type.form(), rules);
                let gzip = Box::new(Gzip::new(content, rules.decoded_bytes_max()));
                Self::Gzip { sent: Sha256::new(), gzip }
            }
            _ => Self::Sent(Content::new(None, rules)),
        }
    }
}

fn coding(value: &[u8]) -> Vec<u8> {
    let coding = trim(value).to_ascii_lowercase();
    if coding == b"identity" { Vec::new() } else { coding }
}

fn structured(rules_digest: [u8; Rules::DIGEST_LENGTH], hash: &[u8; 32]) -> Fingerprint {
    let bytes = [&[Fingerprinter::VERSION], &rules_digest[..], hash].concat();
    Fingerprint::from_bytes(&bytes).expect("STRUCTURED_LENGTH bytes are allowed")
}
