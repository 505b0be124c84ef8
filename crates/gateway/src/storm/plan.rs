//! The plan: arguments checked, files read, defaults filled in. Nothing is sent yet.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, header};
use http_body_util::Full;

use super::endpoint::Endpoint;
use super::template::{HeaderTemplate, NumberedKey, Template};
use super::{Arguments, BodySource};

/// What will be done.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) request: RequestTemplate,
    pub(super) keys: u32,
    /// Repeats of one key that start at the same instant.
    pub(super) concurrency: u32,
    pub(super) parallel_keys: u32,
    pub(super) abort_after: Option<Duration>,
    pub(super) retry: bool,
    pub(super) count: Option<CountPlan>,
    pub(super) timeout: Duration,
}

/// Where the effects are counted.
#[derive(Debug)]
pub(super) struct CountPlan {
    pub(super) endpoint: Endpoint,
    pub(super) pointer: String,
    pub(super) headers: Vec<HeaderTemplate>,
    /// How long the count must stand still when a repeat may still be executing.
    pub(super) settle: Duration,
}

/// The request, but for the key.
#[derive(Debug)]
pub(super) struct RequestTemplate {
    pub(super) endpoint: Endpoint,
    method: Method,
    headers: Vec<HeaderTemplate>,
    key_header: HeaderName,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Empty,
    Text(Template),
    /// Not UTF-8, so without placeholders.
    Bytes(Bytes),
}

// === impl Plan ===

impl Plan {
    /// Checks what one argument alone cannot tell.
    ///
    /// # Errors
    ///
    /// Arguments that contradict each other, or a body file that cannot be read.
    pub(super) fn check(arguments: Arguments) -> anyhow::Result<Self> {
        if let Some(after) = arguments.abort_after.filter(|&after| after >= arguments.timeout) {
            bail!(
                "--abort-after {} must be shorter than --timeout {}",
                humantime::format_duration(after),
                humantime::format_duration(arguments.timeout)
            );
        }
        if let Some(url) =
            arguments.count_url.as_ref().filter(|url| arguments.parallel_keys > 1 && !url.names_the_key())
        {
            bail!(
                "--parallel-keys {} needs a count of each key: put {{key}} into --count-url {}, or use --parallel-keys 1",
                arguments.parallel_keys,
                url.as_str()
            );
        }
        if arguments.headers.iter().any(|header| header.name == arguments.key_header) {
            bail!("--header {0} collides with the key: storm sets {0} itself, to a fresh key", arguments.key_header);
        }
        let settle = arguments.settle;
        let count = arguments.count_url.map(|endpoint| CountPlan {
            endpoint,
            pointer: arguments.count_pointer,
            headers: arguments.count_headers,
            settle,
        });
        let request = RequestTemplate {
            endpoint: arguments.url,
            method: arguments.method,
            headers: arguments.headers,
            key_header: arguments.key_header,
            body: Body::read(arguments.body)?,
        };
        Ok(Self {
            request,
            keys: arguments.keys,
            concurrency: arguments.concurrency,
            parallel_keys: arguments.parallel_keys.min(arguments.keys),
            abort_after: arguments.abort_after,
            retry: arguments.retry,
            count,
            timeout: arguments.timeout,
        })
    }
}

// === impl RequestTemplate ===

impl RequestTemplate {
    /// The request of one key. Its repeats are clones, equal to the last byte.
    pub(super) fn fill(&self, key: &NumberedKey) -> Request<Full<Bytes>> {
        let body = self.body.fill(key);
        let mut request = request(&self.method, &self.endpoint, &self.headers, key);
        if !body.is_empty() && !request.headers().contains_key(header::CONTENT_TYPE) && is_json(&body) {
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let value = HeaderValue::from_str(&key.key).expect("a UUID is a header value");
        request.headers_mut().insert(&self.key_header, value);
        request.map(|()| Full::new(body))
    }
}

/// A request without a body: method, path, `Host`, `User-Agent` and the headers given, which win.
pub(super) fn request(
    method: &Method,
    endpoint: &Endpoint,
    headers: &[HeaderTemplate],
    key: &NumberedKey,
) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = method.clone();
    *request.uri_mut() = endpoint.path(key);
    for header in headers {
        request.headers_mut().append(&header.name, header.value(key));
    }
    let host = HeaderValue::from_str(endpoint.authority()).expect("an authority is a header value");
    request.headers_mut().entry(header::HOST).or_insert(host);
    let agent = HeaderValue::from_static(concat!("oncegate-storm/", env!("CARGO_PKG_VERSION")));
    request.headers_mut().entry(header::USER_AGENT).or_insert(agent);
    request
}

fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok()
}

// === impl Body ===

impl Body {
    fn read(source: Option<BodySource>) -> anyhow::Result<Self> {
        match source {
            None => Ok(Self::Empty),
            Some(BodySource::Text(text)) => Ok(Self::Text(Template::new(text))),
            Some(BodySource::File(path)) => {
                let bytes =
                    std::fs::read(&path).with_context(|| format!("cannot read the body from {}", path.display()))?;
                Ok(match String::from_utf8(bytes) {
                    Ok(text) => Self::Text(Template::new(text)),
                    Err(error) => Self::Bytes(error.into_bytes().into()),
                })
            }
        }
    }

    fn fill(&self, key: &NumberedKey) -> Bytes {
        match self {
            Self::Empty => Bytes::new(),
            Self::Text(template) => template.fill(key).into(),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}

// === values on the command line ===

pub(super) fn method(text: &str) -> Result<Method, String> {
    match Method::from_bytes(text.to_ascii_uppercase().as_bytes()) {
        Ok(method) if method != Method::CONNECT => Ok(method),
        _ => Err("write a method such as POST, PUT, PATCH or DELETE".to_owned()),
    }
}

pub(super) fn header_name(text: &str) -> Result<HeaderName, String> {
    text.parse().map_err(|_| "write a header name such as Idempotency-Key: letters, digits and -".to_owned())
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        Ok(_) => Err("must be longer than zero".to_owned()),
        Err(_) => Err("write a number with a unit, such as 500ms, 60s or 2m".to_owned()),
    }
}

/// A plain number counts milliseconds; anything else is a duration with its unit.
pub(super) fn milliseconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(0) => Err("must be longer than zero".to_owned()),
        Ok(milliseconds) => Ok(Duration::from_millis(milliseconds)),
        Err(_) => duration(text),
    }
}

pub(super) fn pointer(text: &str) -> Result<String, String> {
    if text.is_empty() || text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err("a JSON pointer is empty or begins with /, such as /count".to_owned())
    }
}
