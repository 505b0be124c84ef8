//! The configuration of commands that need the store and no service.

use std::{ffi::OsString, path::PathBuf};

use super::{Faults, Sources, StoreSettings, load};

/// The flags of these commands; they may stand before or behind a subcommand.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct StoreSources {
    /// Configuration file (TOML); none is needed
    #[arg(long, value_name = "FILE", env = "ONCEGATE_CONFIG", global = true)]
    pub(crate) config: Option<PathBuf>,

    /// Where records live [default: sqlite://oncegate.db]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) store: Option<String>,

    /// Redis that answers repeats in front of a PostgreSQL store
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) front: Option<String>,
}

/// Reads file, environment and flags as `serve` does, except that no service need be named.
///
/// # Errors
/// Every fault that was found, wherever it is: a file that `serve` refuses may mean another store.
pub(crate) fn load_store(
    sources: &StoreSources,
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<StoreSettings, Faults> {
    let (config, store, front) = (sources.config.clone(), sources.store.clone(), sources.front.clone());
    let config = load(&Sources { config, store, front, ..Sources::default() }.without_service(), variables)?;
    Ok(config.store)
}
