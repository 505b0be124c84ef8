//! What a gate says when it starts.

use anyhow::Context as _;

use super::{gate::Gate, log::LogFormat, route_table};

/// Says what is guarded and how. `listening on` comes last: whoever waits for it can rely on all the rest.
pub(super) fn gate(gate: &Gate, log: LogFormat) -> anyhow::Result<()> {
    let config = &gate.config;
    let admin = gate.admin_listener.local_addr().context("the admin listener has no address")?;
    let listen = gate.listener.local_addr().context("the listener has no address")?;
    log.announce(&format!("oncegate {} guards {}", env!("CARGO_PKG_VERSION"), config.upstream));
    log.announce(&format!("store {}", config.store.address));
    for line in route_table::of(&config.routes).trim_fmt().lines() {
        log.announce(line);
    }
    for warning in &config.warnings {
        log.announce(&format!("warning: {warning}"));
    }
    log.announce(&format!("admin on http://{admin}"));
    log.announce(&format!("listening on http://{listen}"));
    Ok(())
}
