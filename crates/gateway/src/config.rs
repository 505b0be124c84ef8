//! The configuration: what was written (file, environment, flags) and what the program uses.
//!
//! Files are named after the steps: written → section, kind → route, secret → [`Config`] → warning,
//! print. `docs/configuration.md` explains every key to users; a test holds it to what is read here.

use std::{
    ffi::OsString,
    fmt::{self, Display},
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use oncegate_core::{Backend, Suspicion};
use oncegate_store::redis;
use oncegate_tower::{Route, Routes};

use crate::{access_log, proxy::UpstreamAddress, store_address::StoreAddress};

mod difference;
mod front;
mod kind;
mod origin;
mod print;
mod route;
mod route_kind;
mod routes;
mod secret;
mod section;
mod store_sources;
#[cfg(test)]
mod tests;
mod token;
mod warning;
mod written;

pub(crate) use self::{
    difference::RouteChange,
    front::Front,
    kind::length_text,
    origin::Faults,
    route_kind::{key_source_text, matcher_text, scope_part_text},
    store_sources::{StoreSources, load_store},
    token::Token,
};
use self::{
    kind::{Length, Number, Size, TextOf, Word, YesOrNo},
    origin::{Fault, Origin, Sourced},
    route_kind::DEFAULTS,
    routes::RouteList,
    secret::Secrets,
    section::{Effective, Notes, Section},
    written::{Table, Written},
};

// === types ===

/// The flags of every command that reads the configuration.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Sources {
    /// Configuration file (TOML); none is needed
    #[arg(long, value_name = "FILE", env = "ONCEGATE_CONFIG")]
    config: Option<PathBuf>,

    /// Address of the guarded service, such as http://127.0.0.1:8000
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,

    /// Address to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<String>,

    /// Address of the admin listener [default: 127.0.0.1:8081]
    #[arg(long, value_name = "IP:PORT")]
    admin: Option<String>,

    /// Where records live [default: sqlite://oncegate.db]
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// Redis that answers repeats in front of a PostgreSQL store
    #[arg(long, value_name = "URL")]
    front: Option<String>,
}

/// What the program uses.
#[derive(Debug)]
pub(crate) struct Config {
    /// The guarded service.
    pub(crate) upstream: UpstreamAddress,
    /// Where clients connect.
    pub(crate) listen: SocketAddr,
    /// How long a stop waits for what is running.
    pub(crate) drain: Duration,
    /// How far apart the same request under two keys is suspected; zero: never.
    pub(crate) suspect_window: Duration,
    /// The admin listener.
    pub(crate) admin: Admin,
    /// Where records live.
    pub(crate) store: StoreSettings,
    /// The log of requests.
    pub(crate) access_log: access_log::Settings,
    /// How requests are guarded.
    pub(crate) routes: Routes,
    /// Choices that are allowed and risky, in sentences.
    pub(crate) warnings: Vec<String>,
    secrets: Secrets,
    effective: Vec<Effective>,
}

/// The admin listener.
#[derive(Debug)]
pub(crate) struct Admin {
    /// Where it listens.
    pub(crate) listen: SocketAddr,
    /// What callers must show; never absent when others than this machine can connect.
    pub(crate) token: Option<Token>,
    /// Whether stored responses are shown, and not only how long they are.
    pub(crate) show_bodies: bool,
}

/// Where records live.
#[derive(Debug)]
pub(crate) struct StoreSettings {
    /// Which store.
    pub(crate) address: StoreAddress,
    /// How long one verb may take.
    pub(crate) timeout: Duration,
    /// How many bytes of completed records are remembered.
    pub(crate) cache_bytes: u64,
    /// Whether `serve` may bring an older schema up to date.
    pub(crate) migrate: bool,
    /// What only a Redis is told.
    pub(crate) redis: redis::Options,
    /// What stands in front of a PostgreSQL.
    pub(crate) front: Option<Box<Front>>,
}

// === the kinds of the keys outside of routes ===

const UPSTREAM: TextOf<UpstreamAddress> =
    TextOf { read: |text| parsed::<UpstreamAddress>(text), show: UpstreamAddress::to_string };
const ADDRESS: TextOf<SocketAddr> = TextOf { read: socket_address, show: SocketAddr::to_string };
const STORE: TextOf<StoreAddress> = TextOf { read: |text| parsed::<StoreAddress>(text), show: StoreAddress::to_string };
/// An orchestrator that waits for longer than ten minutes is unusual, a drain for ever is a mistake.
const DRAIN: Length = Length { min: Duration::ZERO, max: Duration::from_mins(10) };
/// Longer than the usual retention nothing could be found.
const SUSPECT_WINDOW: Length = Length { min: Duration::ZERO, max: Duration::from_hours(24) };
const STORE_TIMEOUT: Length = Length { min: Duration::from_millis(10), max: Duration::from_mins(1) };
/// Longer than the longest lease would only refuse for longer.
const COLD: Length = Length { min: Duration::ZERO, max: Duration::from_hours(1) };
/// More replicas than anybody has.
const REPLICAS: Number = Number { min: 0, max: 16 };
const ACCESS_LOG: Word<Option<access_log::Format>> =
    Word(&[("off", None), ("text", Some(access_log::Format::Text)), ("json", Some(access_log::Format::Json))]);
const CACHE: Size = Size { max: 64 << 30 };

fn parsed<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!(
            "{text:?} is not an address: write IP:PORT, such as \"127.0.0.1:8080\", \"0.0.0.0:8080\" or \"[::1]:8080\""
        )
    })
}

// === loading ===

/// Reads file, environment and flags.
///
/// # Errors
/// Every fault that was found.
pub(crate) fn load(sources: &Sources, variables: impl Iterator<Item = (OsString, OsString)>) -> Result<Config, Faults> {
    let file = match &sources.config {
        Some(file) => read_file(file)?,
        None => Table::default(),
    };
    read(file, variables, sources)
}

/// Whether the upstream's address is this one; names are not resolved, and port 0 is any.
fn is_at(upstream: &UpstreamAddress, listen: SocketAddr) -> bool {
    let host: Result<IpAddr, _> = upstream.host().parse();
    upstream.port() == listen.port() && host.is_ok_and(|host| host == listen.ip())
}

fn read_file(file: &Path) -> Result<Table, Fault> {
    let text = fs::read_to_string(file).map_err(|error| {
        Fault::new(&Origin::Flag("--config"), format!("{} cannot be read: {error}", file.display()))
    })?;
    Table::parse(&file.display().to_string(), &text)
}

fn set_flags(table: &mut Table, sources: &Sources) -> Vec<Fault> {
    let flags: [(&'static str, &[&str], &Option<String>); 5] = [
        ("--upstream", &["upstream"], &sources.upstream),
        ("--listen", &["listen"], &sources.listen),
        ("--admin", &["admin", "listen"], &sources.admin),
        ("--store", &["store", "url"], &sources.store),
        ("--front", &["store", "front"], &sources.front),
    ];
    let set = |(flag, path, value): (_, &[&str], &Option<String>)| {
        let path: Vec<_> = path.iter().map(|&step| step.to_owned()).collect();
        table.set(&path, Written::unquoted(Origin::Flag(flag), value.as_ref()?)).err()
    };
    flags.into_iter().filter_map(set).collect()
}

fn read(
    mut table: Table,
    variables: impl Iterator<Item = (OsString, OsString)>,
    sources: &Sources,
) -> Result<Config, Faults> {
    let mut notes = Notes::default();
    notes.faults.extend(table.set_variables(variables));
    notes.faults.extend(set_flags(&mut table, sources));
    let mut top = Section::top(table);
    let upstream =
        top.get_required("upstream", &UPSTREAM, "name the service to guard, such as --upstream http://127.0.0.1:8000");
    let listen = top.get("listen", &ADDRESS, Sourced::default(SocketAddr::from(([127, 0, 0, 1], 8080))));
    let drain = top.get("drain", &DRAIN, Sourced::default(Duration::from_secs(30)));
    let suspect_window = top.get("suspect_window", &SUSPECT_WINDOW, Sourced::default(Suspicion::WINDOW));
    if let Some(upstream) = upstream.as_ref().filter(|upstream| is_at(&upstream.value, listen.value)) {
        top.fault(
            &upstream.origin,
            format!("upstream {} is this gate's own listen: it would call itself", upstream.value),
        );
    }

    let mut admin = top.section("admin");
    let mut store = top.section("store");
    let mut access_log = top.section("access_log");
    let mut secret_sections = top.sections("secrets", "id");
    let defaults = top.section("defaults");
    let route_sections = top.sections("route", "name");
    top.finish(&mut notes);

    let admin_settings = Admin::read(&mut admin, listen.value);
    admin.finish(&mut notes);
    let store_settings = StoreSettings::read(&mut store);
    store.finish(&mut notes);
    let access_log_settings = read_access_log(&mut access_log);
    access_log.finish(&mut notes);
    let secrets = Secrets::read(&mut secret_sections);
    secret_sections.into_iter().for_each(|section| section.finish(&mut notes));

    let list = RouteList::read(defaults, route_sections, &mut notes);
    notes.faults.extend(list.misplaced_secrets(&store_settings.address));
    let routes = list.routes(&secrets).unwrap_or_else(|faults| {
        notes.faults.extend(faults);
        Routes::all(Route::gateway(DEFAULTS, Backend::Plain))
    });
    notes.faults.extend(store_settings.front.as_ref().and_then(|front| front.check(&routes).err()));
    let warnings = [warning::of_store(&store_settings), list.warnings(&store_settings)].concat();

    let (effective, faults) = notes.into_faults();
    Faults::check(faults)?;
    Ok(Config {
        upstream: upstream.expect("its absence is a fault, checked above").value,
        listen: listen.value,
        drain: drain.value,
        suspect_window: suspect_window.value,
        admin: admin_settings,
        store: store_settings,
        access_log: access_log_settings,
        routes,
        warnings,
        secrets,
        effective,
    })
}

fn read_access_log(section: &mut Section) -> access_log::Settings {
    let format = section.get("format", &ACCESS_LOG, Sourced::default(None));
    let full_keys = section.get("full_keys", &YesOrNo, Sourced::default(false));
    access_log::Settings { format: format.value, full_keys: full_keys.value }
}

// === impl Sources ===

impl Sources {
    /// For whoever needs the store and serves no client, so that no service need be named, and what is said of one is
    /// not used.
    pub(crate) fn without_service(self) -> Self {
        Self {
            // Reserved by RFC 6761 for names that never exist; nothing connects to it.
            upstream: Some("http://no-service.invalid".to_owned()),
            // Nothing listens there, so that no other address can be the same.
            listen: Some("127.0.0.1:0".to_owned()),
            ..self
        }
    }
}

// === impl Config ===

impl Config {
    /// The effective values and where they come from, as TOML; secrets are masked.
    pub(crate) fn print(&self) -> String {
        print::effective(&self.effective)
    }
}

// === impl Admin ===

impl Admin {
    fn read(section: &mut Section, clients: SocketAddr) -> Self {
        let listen = section.get("listen", &ADDRESS, Sourced::default(SocketAddr::from(([127, 0, 0, 1], 8081))));
        if listen.value == clients && clients.port() != 0 {
            section.fault(&listen.origin, format!("[admin] listen {clients} is listen too: give it another port"));
        }
        let token = secret::token(section);
        if token.is_none() && !listen.value.ip().is_loopback() && !section.has_faults() {
            let text = format!(
                "[admin] listen {} can be reached from other machines: set [admin] token, or listen on 127.0.0.1",
                listen.value
            );
            section.fault(&listen.origin, text);
        }
        let show_bodies = section.get("show_bodies", &YesOrNo, Sourced::default(false)).value;
        Self { listen: listen.value, token: token.map(|token| Token::new(token.value)), show_bodies }
    }
}

// === impl StoreSettings ===

/// Its address, and that of its front.
impl Display for StoreSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.front {
            Some(front) => write!(f, "{} behind {}", self.address, front.address),
            None => self.address.fmt(f),
        }
    }
}

impl StoreSettings {
    /// Reads `url` or `url_file`: an address may hold a password.
    fn address(section: &mut Section) -> Sourced<StoreAddress> {
        let default = Sourced::default(StoreAddress::default());
        if !section.has("url_file") {
            section.get_optional("url_file", &secret::FILE);
            return section.get("url", &STORE, default);
        }
        secret::read(section, ["url", "url_file"], &STORE, STORE.read).unwrap_or(default)
    }

    fn read(section: &mut Section) -> Self {
        let defaults = oncegate_tower::Settings::default();
        let address = Self::address(section);
        let timeout = section.get("timeout", &STORE_TIMEOUT, Sourced::default(defaults.store_timeout));
        let cache_bytes = section.get("cache_bytes", &CACHE, Sourced::default(defaults.cache_bytes));
        let migrate = section.get("migrate", &YesOrNo, Sourced::default(true));
        if !migrate.value && !matches!(address.value, StoreAddress::Postgres(_)) {
            section.fault(
                &migrate.origin,
                "migrate = false is for a PostgreSQL store: SQLite files are always brought up to date",
            );
        }
        let redis = Self::redis(section, &address);
        let front = front::read(section, &address);
        Self {
            address: address.value,
            timeout: timeout.value,
            cache_bytes: cache_bytes.value,
            migrate: migrate.value,
            redis,
            front,
        }
    }

    /// What is for a Redis; elsewhere it would promise what it cannot mean.
    fn redis(section: &mut Section, address: &Sourced<StoreAddress>) -> redis::Options {
        let mut options = redis::Options::default();
        let best_effort = section.get("best_effort", &YesOrNo, Sourced::default(false));
        let cold = section.get("cold", &COLD, Sourced::default(options.cold));
        let wait_replicas = section.get("wait_replicas", &REPLICAS, Sourced::default(options.wait_replicas));
        let allow_eviction = section.get("allow_eviction", &YesOrNo, Sourced::default(options.allow_eviction));
        if !matches!(address.value, StoreAddress::Redis(_)) {
            // The defaults may stand there: they say nothing.
            let asked = [
                ("best_effort", best_effort.value, &best_effort.origin),
                ("cold", cold.value != options.cold, &cold.origin),
                ("wait_replicas", wait_replicas.value != options.wait_replicas, &wait_replicas.origin),
                ("allow_eviction", allow_eviction.value, &allow_eviction.origin),
            ];
            for (name, _, origin) in asked.into_iter().filter(|(_, is_asked, _)| *is_asked) {
                section.fault(origin, format!("{name} is for a Redis store, and the store is {}", address.value));
            }
        } else if !best_effort.value {
            section.fault(
                &address.origin,
                "a Redis alone can forget what it acknowledged (restart, failover, eviction), and then a repeat executes \
                 a second time: write [store] best_effort = true if that may happen, as with likes, or keep records in \
                 PostgreSQL if it costs money",
            );
        }
        (options.cold, options.wait_replicas) = (cold.value, wait_replicas.value);
        options.allow_eviction = allow_eviction.value;
        options
    }
}
