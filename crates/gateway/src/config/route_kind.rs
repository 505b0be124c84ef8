//! What the keys of `[defaults]` and `[[route]]` allow.

use std::time::Duration;

use http::{HeaderName, Method};
use oncegate_core::{
    Backend, OnAbandoned, Policy,
    fingerprint::{JsonPointer, Mode, Rules},
};
use oncegate_tower::route::{Anonymous, KeySource, Matcher, Pattern, ScopePart};

use super::{
    kind::{Kind, Length, ListOf, Number, Size, TextOf, Word, YesOrNo},
    origin::Fault,
    written::{Value, Written},
};

// === types ===

/// `{ release = [429], store = [500], ambiguous = [502] }`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Statuses {
    pub(super) release: Vec<u16>,
    pub(super) store: Vec<u16>,
    pub(super) ambiguous: Vec<u16>,
}

/// How [`Statuses`] are read.
pub(super) struct StatusesKind;

// === the kinds ===

/// The longest time that anything about one request may take: the longest lease.
const TIMEOUT_MAX: Duration = Policy::LEASE_MAX;
/// A waiting repeat holds a connection; beyond a minute most clients and proxies have given up.
const WAIT_MAX: Duration = Duration::from_mins(1);
/// Shorter timeouts would cut answers off between two packets.
const TIMEOUT_MIN: Duration = Duration::from_millis(10);
/// Bodies of guarded requests are read whole, to a file when they are long.
const REQUEST_BODY_MAX: u64 = 1 << 30;
/// Stored bodies are held in memory while they are copied, and in each row.
const STORED_BODY_MAX: u64 = 64 << 20;
/// More entries in a list than anybody writes by hand.
const LIST_MAX: usize = 64;

pub(super) const BACKEND: Word<Backend> =
    Word(&[("plain", Backend::Plain), ("idempotent", Backend::Idempotent), ("transactional", Backend::Transactional)]);
pub(super) const ON_ABANDONED: Word<OnAbandoned> =
    Word(&[("takeover", OnAbandoned::Takeover), ("unknown", OnAbandoned::Unknown)]);
pub(super) const ANONYMOUS: Word<Anonymous> = Word(&[("share", Anonymous::Share), ("reject", Anonymous::Reject)]);
pub(super) const FINGERPRINT: Word<Mode> = Word(&[("meaning", Mode::Meaning), ("bytes", Mode::Bytes)]);
pub(super) const FLAG: YesOrNo = YesOrNo;
pub(super) const COUNT: Number = Number { min: 1, max: 1_000 };
pub(super) const LEASE: Length = Length { min: Policy::LEASE_MIN, max: Policy::LEASE_MAX };
pub(super) const RETENTION: Length = Length { min: Policy::LEASE_MIN, max: Policy::RETENTION_MAX };
pub(super) const WAIT: Length = Length { min: Duration::ZERO, max: WAIT_MAX };
pub(super) const UPSTREAM: Length = Length { min: TIMEOUT_MIN, max: TIMEOUT_MAX };
pub(super) const IDLE: Length = Length { min: TIMEOUT_MIN, max: TIMEOUT_MAX };
pub(super) const REQUEST_BODY: Size = Size { max: REQUEST_BODY_MAX };
pub(super) const STORED_BODY: Size = Size { max: STORED_BODY_MAX };
pub(super) const METHODS: ListOf<TextOf<Method>> =
    ListOf { kind: TextOf { read: guardable_method, show: Method::to_string }, max: LIST_MAX };
pub(super) const HEADERS: ListOf<TextOf<HeaderName>> =
    ListOf { kind: TextOf { read: replayable_header, show: HeaderName::to_string }, max: LIST_MAX };
pub(super) const IGNORE: ListOf<TextOf<JsonPointer>> =
    ListOf { kind: TextOf { read: pointer, show: JsonPointer::to_string }, max: Rules::POINTERS_MAX };
pub(super) const KEY: TextOf<KeySource> = TextOf { read: key_source, show: key_source_text };
pub(super) const SCOPE: ListOf<TextOf<ScopePart>> =
    ListOf { kind: TextOf { read: scope_part, show: scope_part_text }, max: LIST_MAX };
pub(super) const STATUSES: StatusesKind = StatusesKind;
pub(super) const NAME: TextOf<String> = TextOf { read: route_name, show: String::clone };
pub(super) const MATCH: TextOf<Matcher> = TextOf { read: matcher, show: matcher_text };

/// What requests that match no route are called.
pub(super) const DEFAULTS: &str = "defaults";

// === names and matches ===

fn route_name(text: &str) -> Result<String, String> {
    const LENGTH_MAX: usize = 64;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.len() > LENGTH_MAX || !text.chars().all(is_allowed) {
        return Err(format!(
            "{text:?} is not a route's name: 1 to {LENGTH_MAX} of a-z, A-Z, 0-9, -, _ and . are allowed"
        ));
    }
    if text == DEFAULTS {
        return Err(format!("{text:?} is what [defaults] is called: give the route another name"));
    }
    Ok(text.to_owned())
}

fn matcher(text: &str) -> Result<Matcher, String> {
    let refuse = |reason: String| {
        format!("{text:?} {reason}: write a method or *, a space and a path, such as \"POST /orders/*/pay\"")
    };
    let (method, path) = text.split_once(' ').ok_or_else(|| refuse("is not a match".to_owned()))?;
    let method = match method {
        "*" => None,
        method => Some(upper_case_method(method).ok_or_else(|| refuse(format!("has {method:?} for a method")))?),
    };
    let path = Pattern::parse(path.trim_start()).map_err(|error| refuse(format!("does not match ({error})")))?;
    Ok(Matcher { method, path })
}

/// A match as it is written.
pub(crate) fn matcher_text(matcher: &Matcher) -> String {
    format!("{} {}", matcher.method.as_ref().map_or("*", Method::as_str), matcher.path.as_str())
}

/// Methods are case-sensitive (RFC 9110 section 9.1), and `post` would guard nothing.
fn upper_case_method(text: &str) -> Option<Method> {
    let is_upper =
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || matches!(byte, b'-' | b'_'));
    Method::from_bytes(text.as_bytes()).ok().filter(|_| is_upper)
}

/// The header is ignored on the others (RFC 9110 section 9.2.1: they are safe), whatever is written.
pub(super) fn is_guardable(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS | Method::CONNECT | Method::TRACE)
}

fn guardable_method(text: &str) -> Result<Method, String> {
    let method = upper_case_method(text)
        .ok_or_else(|| format!("{text:?} is not a method: write one in upper case, such as \"POST\""))?;
    if !is_guardable(&method) {
        return Err(format!("{text:?} is never guarded: its repeats are harmless by themselves"));
    }
    Ok(method)
}

// === headers, keys and scopes ===

fn header_name(text: &str) -> Result<HeaderName, String> {
    text.parse().map_err(|_| format!("{text:?} is not a header's name: letters, digits and - are usual"))
}

fn replayable_header(text: &str) -> Result<HeaderName, String> {
    let name = header_name(text)?;
    if !oncegate_tower::replay::may_be_kept(&name) {
        return Err(format!("{text:?} is never replayed: it belongs to one exchange, one session or one connection"));
    }
    Ok(name)
}

fn pointer(text: &str) -> Result<JsonPointer, String> {
    JsonPointer::parse(text).map_err(|error| error.to_string())
}

fn key_source(text: &str) -> Result<KeySource, String> {
    let refuse = |reason: &str| {
        format!(r#"{text:?} {reason}: write "header:NAME", or "body:/POINTER" for a member of a JSON body"#)
    };
    match text.split_once(':') {
        Some(("header", name)) => Ok(KeySource::Header(header_name(name)?)),
        Some(("body", "")) => Err(refuse("names the whole body")),
        Some(("body", path)) => Ok(KeySource::Body(pointer(path)?)),
        Some(_) | None => Err(refuse("does not say where the key is")),
    }
}

/// A key's place as it is written.
pub(crate) fn key_source_text(source: &KeySource) -> String {
    match source {
        KeySource::Header(name) => format!("header:{name}"),
        KeySource::Body(pointer) => format!("body:{}", pointer.as_str()),
    }
}

fn scope_part(text: &str) -> Result<ScopePart, String> {
    let refuse =
        |reason: &str| format!(r#"{text:?} {reason}: write "authorization", "header:NAME", "cookie:NAME" or "route""#);
    match text.split_once(':') {
        None if text == "authorization" => Ok(ScopePart::Credential),
        None if text == "route" => Ok(ScopePart::Route),
        Some(("header", name)) => match header_name(name)? {
            // As a credential, so that it is kept as a digest however it is written.
            name if name == http::header::AUTHORIZATION => Ok(ScopePart::Credential),
            name => Ok(ScopePart::Header(name)),
        },
        Some(("cookie", name)) if is_cookie_name(name) => Ok(ScopePart::Cookie(name.into())),
        Some(("jwt", _)) => Err(refuse("is not supported in this version")),
        Some(_) | None => Err(refuse("does not identify a caller")),
    }
}

/// A scope's part as it is written.
pub(crate) fn scope_part_text(part: &ScopePart) -> String {
    match part {
        ScopePart::Credential => "authorization".to_owned(),
        ScopePart::Header(name) => format!("header:{name}"),
        ScopePart::Cookie(name) => format!("cookie:{name}"),
        ScopePart::Route => "route".to_owned(),
    }
}

/// A token (RFC 6265 section 4.1.1).
fn is_cookie_name(name: &str) -> bool {
    let is_separator = |byte| b"()<>@,;:\\\"/[]?={}".contains(&byte);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !is_separator(byte))
}

// === impl StatusesKind ===

impl Kind for StatusesKind {
    type Value = Statuses;

    fn read(&self, written: &Written) -> Result<Statuses, Fault> {
        const ALLOWED: &str = "write { release = [429], store = [500], ambiguous = [502] }, or fewer of them";
        let written = written.as_toml();
        let Value::Table(mut table) = written.value.clone() else {
            return Err(written.fault(format!("{} is not allowed: {ALLOWED}", written.shown())));
        };
        let mut list = |name| table.take(name).map_or(Ok(Vec::new()), |entry| status_list(&entry.written));
        let statuses = Statuses { release: list("release")?, store: list("store")?, ambiguous: list("ambiguous")? };
        if let Some((name, entry)) = table.into_entries().next() {
            return Err(Fault::new(&entry.name, format!("unknown key {name:?}: {ALLOWED}")));
        }
        match statuses.repeated() {
            Some(status) => Err(written.fault(format!("status {status} stands twice: each has one meaning"))),
            None => Ok(statuses),
        }
    }

    fn show(&self, value: &Statuses) -> String {
        let lists = [("release", &value.release), ("store", &value.store), ("ambiguous", &value.ambiguous)];
        let shown: Vec<_> = lists
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name} = {list:?}"))
            .collect();
        if shown.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", shown.join(", ")) }
    }
}

/// Final answers; what comes before them is not the backend's decision.
const STATUS: Number = Number { min: 200, max: 599 };

fn status_list(written: &Written) -> Result<Vec<u16>, Fault> {
    let list = ListOf { kind: STATUS, max: LIST_MAX }.read(written)?;
    Ok(list.into_iter().map(|status| u16::try_from(status).expect("at most 599, checked by the kind")).collect())
}

impl Statuses {
    fn repeated(&self) -> Option<u16> {
        let mut all = [&self.release[..], &self.store, &self.ambiguous].concat();
        all.sort_unstable();
        all.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }
}
