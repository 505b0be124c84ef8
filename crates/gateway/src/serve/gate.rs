//! Puts the gate together and starts it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use oncegate_core::Store;
use oncegate_store::observer;
use oncegate_tower::{Handle, Idempotency, IdempotencyLayer, Settings, Unobserved};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tower::{ServiceBuilder, layer::layer_fn};

use super::{
    announce,
    census::Census,
    door::Door,
    health::{Health, Observers},
    log::LogFormat,
    reaper::Reaper,
    reload::{LastReload, Parts, Reloader},
    running::Running,
    suspect::{Suspect, Suspicions},
};
use crate::{
    access_log::AccessLog,
    admin::{self, Admin, SharedToken},
    config::{Config, Sources},
    metrics::Metrics,
    open_store::{self, Opener},
    proxy::{self, AcceptSettings, ProtectedHeaders, Upstream},
    records::desk::Desk,
    well_known::{Published, WellKnown},
};

/// Everything that can fail before the first request, done.
pub(super) struct Gate {
    pub(super) config: Config,
    pub(super) store: Arc<dyn Store>,
    pub(super) metrics: Arc<Metrics>,
    /// Where clients come in; `None` where nothing is guarded.
    pub(super) listener: Option<TcpListener>,
    pub(super) admin_listener: TcpListener,
    /// Whether what the layer says is counted.
    pub(super) is_watched: bool,
}

impl Gate {
    /// Opens the store and both listeners.
    ///
    /// # Errors
    /// When one of them cannot be opened.
    pub(super) async fn prepare(config: Config, is_watched: bool) -> anyhow::Result<Self> {
        let gate = Self::prepare_admin(config, is_watched).await?;
        let listener = bind(gate.config.listen, "listen").await?;
        Ok(Self { listener: Some(listener), ..gate })
    }

    /// Opens the store and the admin listener, and no door for clients.
    ///
    /// # Errors
    /// When one of them cannot be opened.
    pub(super) async fn prepare_admin(config: Config, is_watched: bool) -> anyhow::Result<Self> {
        config.store.address.prepare(config.store.migrate).await?;
        for server in config.store.address.servers(&config.store.redis).await? {
            tracing::info!(%server, "Redis");
        }
        let metrics = Arc::new(Metrics::new(&config.routes));
        let observer: Arc<dyn observer::Observer> =
            if is_watched { Arc::<Metrics>::clone(&metrics) } else { Arc::new(observer::Unobserved) };
        let store = open_store::open(&config.store, Opener::Gateway, observer).await?;
        let admin_listener = bind(config.admin.listen, "[admin] listen").await?;
        Ok(Self { config, store, metrics, listener: None, admin_listener, is_watched })
    }

    /// Says what it does and starts to serve; `sources` are read again at a reload.
    ///
    /// # Errors
    /// When a listener does not say its address.
    pub(super) async fn start(self, log: LogFormat, sources: Sources) -> anyhow::Result<(Running, Reloader)> {
        let (metrics, health) = (Arc::clone(&self.metrics), Arc::new(Health::default()));
        let census = self.census(&metrics, &health);
        census.run_once().await;
        announce::gate(&self, log)?;

        let upstream = Upstream::new(&self.config.upstream, proxy::Settings::default());
        let published = Published::of(&self.config.routes);
        let suspicions = Arc::<Suspicions>::default();
        let observers = Observers {
            metrics: Arc::clone(&metrics),
            health: Arc::clone(&health),
            suspicions: Arc::clone(&suspicions),
        };
        let (stack, executions) = self.stack(observers, upstream.clone(), published.clone());
        let parts = Parts {
            metrics,
            protected: ProtectedHeaders::of(&self.config.routes),
            published,
            guard: executions.clone(),
            token: SharedToken::new(self.config.admin.token.clone()),
        };
        let dropped = parts.metrics.access_log_dropped();
        let log_of_requests = AccessLog::start(self.config.access_log, std::io::stdout(), dropped);
        let (access_log, writer) = log_of_requests.unzip();
        let settings = self.accept_settings(&parts, access_log);
        let door = self.listener.map(|listener| Door::open(listener, stack, upstream, settings));

        let (background, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let last = Arc::<LastReload>::default();
        let desk = Desk { store: Arc::clone(&self.store), timeout: self.config.store.timeout };
        let suspect = Suspect {
            store: Arc::clone(&self.store),
            metrics: Arc::clone(&parts.metrics),
            guard: parts.guard.clone(),
            suspicions,
            window: self.config.suspect_window,
        };
        let reaper = Reaper { store: Arc::clone(&self.store), metrics: Arc::clone(&parts.metrics) };
        let show_bodies = self.config.admin.show_bodies;
        let admin = Admin::new(&parts, Arc::clone(&health), Arc::clone(&last), desk, show_bodies);
        tasks.spawn(reaper.run(background.clone()));
        tasks.spawn(census.run(background.clone()));
        tasks.spawn(suspect.run(background.clone()));
        tasks.spawn(admin::serve(self.admin_listener, admin, background.clone()));
        let drain = self.config.drain;
        let store = self.store;
        let running = Running { health, door, executions, store, background, tasks, drain, access_log: writer };
        Ok((running, Reloader { sources, running: self.config, parts, last }))
    }

    /// The way of a request, outermost first. In front of it stands [`proxy::accept`], which applies the rules for
    /// headers and makes answers of errors, so that all below see clean requests and may fail.
    fn stack(
        &self,
        observers: Observers,
        upstream: Upstream,
        published: Published,
    ) -> (WellKnown<Idempotency<Upstream>>, Handle) {
        let settings = Settings {
            observer: if self.is_watched { Arc::new(observers) } else { Arc::new(Unobserved) },
            store_timeout: self.config.store.timeout,
            cache_bytes: self.config.store.cache_bytes,
            suspect_window: if self.is_watched { self.config.suspect_window } else { Duration::ZERO },
            ..Settings::default()
        };
        let guard = IdempotencyLayer::with_settings(Arc::clone(&self.store), self.config.routes.clone(), settings);
        let handle = guard.handle();
        let stack = ServiceBuilder::new()
            // Outside of the guard: what it publishes must be readable while the store is down.
            .layer(layer_fn(|inner| WellKnown::new(inner, published.clone())))
            // Directly before the upstream: whatever stood between them would be executed once per key as well.
            .layer(guard)
            // The service that is guarded.
            .service(upstream);
        (stack, handle)
    }

    fn accept_settings(&self, parts: &Parts, access_log: Option<AccessLog>) -> AcceptSettings {
        let (drain, protected) = (self.config.drain, parts.protected.clone());
        AcceptSettings { drain, protected, access_log, ..AcceptSettings::default() }
    }

    fn census(&self, metrics: &Arc<Metrics>, health: &Arc<Health>) -> Census {
        Census {
            store: Arc::clone(&self.store),
            metrics: Arc::clone(metrics),
            health: Arc::clone(health),
            timeout: self.config.store.timeout,
        }
    }
}

async fn bind(address: SocketAddr, key: &str) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("{key} {address} cannot be listened on"))
}
