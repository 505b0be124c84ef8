//! Opens the store that a configuration names, with the front that stands before it.

use std::sync::Arc;

use anyhow::Context as _;
use oncegate_core::Store;
use oncegate_store::{
    observer::Observer,
    postgres::{self, FrontRegister, RegisteredFront},
    redis,
    tiered::{self, TieredStore},
};

use crate::{
    config::{Front, StoreSettings},
    store_address::{Presence, StoreAddress},
};

// === types ===

/// Who opens a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opener {
    /// A gateway: a store that is not there is made, and a front is remembered there.
    Gateway,
    /// Whoever looks at what gateways have stored. Making an empty store would hide that the address is wrong.
    Visitor,
}

// === opening ===

/// Opens it; a file is read, and a PostgreSQL asked whether a front stands before it.
///
/// # Errors
/// It cannot be opened, is not there for a visitor, or has a front that is not named.
pub(crate) async fn open(
    settings: &StoreSettings,
    opener: Opener,
    observer: Arc<dyn Observer>,
) -> anyhow::Result<Arc<dyn Store>> {
    if let StoreAddress::Postgres(back) = &settings.address {
        let registered = registered_front(settings, back).await?;
        if let Some(front) = &settings.front {
            return tiered(settings, (back, front), (opener, registered), observer).await;
        }
        refuse_without(settings, registered.as_ref())?;
    }
    let (address, timeout, redis) = (settings.address.clone(), settings.timeout, settings.redis.clone());
    let opening = tokio::task::spawn_blocking(move || match (opener, address.presence()?) {
        (Opener::Gateway, _) | (_, Presence::There) => address.open_observed(timeout, &redis, observer),
        (Opener::Visitor, Presence::WillBeMade) => {
            anyhow::bail!("there are no records at {address}: name the gate's store with --store or --config")
        }
    });
    opening.await.context("opening the store failed")?
}

async fn tiered(
    settings: &StoreSettings,
    (back, front): (&postgres::Address, &Front),
    (opener, registered): (Opener, Option<RegisteredFront>),
    observer: Arc<dyn Observer>,
) -> anyhow::Result<Arc<dyn Store>> {
    let mut options = tiered::Options::default().with_timeout(settings.timeout);
    options.back.observer = observer;
    (options.durability, options.outbox_limit) = (front.durability(), front.outbox_limit);
    let front = &front.address;
    let store = TieredStore::open(back, front, options).with_context(|| format!("front {front}"))?;
    let is_known = registered.is_some_and(|registered| registered.address == front.to_string());
    match opener {
        Opener::Gateway => store.stand().await,
        Opener::Visitor if is_known => store.look().await,
        Opener::Visitor => anyhow::bail!(
            "store {}: {front} is not the front that its gateways have: name theirs with --front",
            settings.address
        ),
    }
    .with_context(|| format!("store {}", settings.address))?;
    Ok(Arc::new(store))
}

/// What `check` says of the front that is named; `None`: there is none.
///
/// # Errors
/// It cannot be reached, its gateways have another one, or they have one and none is named.
pub(crate) async fn describe_front(settings: &StoreSettings) -> anyhow::Result<Option<String>> {
    let StoreAddress::Postgres(back) = &settings.address else { return Ok(None) };
    let registered = registered_front(settings, back).await?;
    let Some(front) = &settings.front else {
        refuse_without(settings, registered.as_ref())?;
        return Ok(None);
    };
    // What a front evicts is asked for again.
    let mut options = redis::Options::default();
    options.allow_eviction = true;
    let Front { address: front, .. } = &**front;
    let servers = StoreAddress::Redis(Box::new(front.clone())).servers(&options).await?;
    let mode = registered.as_ref().map_or_else(|| "authoritative".to_owned(), mode);
    let generation = match registered {
        None => "not used yet".to_owned(),
        Some(RegisteredFront { address, .. }) if address != front.to_string() => {
            anyhow::bail!("its gateways have the front {address}: this one would make void what that holds")
        }
        Some(_) => {
            let store = TieredStore::open(back, front, tiered::Options::default().with_timeout(settings.timeout))?;
            store.look().await?;
            format!("generation {}", store.generation().as_deref().unwrap_or("unknown"))
        }
    };
    let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
    Ok(Some(format!("front {front}, {mode}, {generation}: {}", servers.join("; "))))
}

/// Who says that a key is new, and what waits for a person.
fn mode(registered: &RegisteredFront) -> String {
    let RegisteredFront { wants_outbox, epoch, poisoned, .. } = registered;
    let mut text = match (registered.has_outbox(), wants_outbox) {
        (true, _) => format!("outbox (epoch {epoch})"),
        (false, true) => format!("authoritative (epoch {epoch}) until an outbox can be opened"),
        (false, false) => "authoritative".to_owned(),
    };
    if *poisoned > 0 {
        text += &format!(", {poisoned} entries set aside in oncegate.poison");
    }
    text
}

/// The front that the gateways of this store have.
async fn registered_front(
    settings: &StoreSettings,
    back: &postgres::Address,
) -> anyhow::Result<Option<RegisteredFront>> {
    let register = FrontRegister::new(back, &postgres::Options::default());
    register.find().await.with_context(|| format!("store {}", settings.address))
}

/// Whoever changes records beside the front would leave it with what was before.
fn refuse_without(settings: &StoreSettings, registered: Option<&RegisteredFront>) -> anyhow::Result<()> {
    let Some(RegisteredFront { address, .. }) = registered else { return Ok(()) };
    anyhow::bail!(
        "store {} has a front, which has to be told of what is changed: add --front {address} (its password, if there is \
         one, is not known here); to do without it from now on, see docs/tiered.md",
        settings.address
    )
}
