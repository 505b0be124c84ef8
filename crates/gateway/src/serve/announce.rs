//! What a gate says when it starts.

use anyhow::Context as _;

use super::{gate::Gate, log::LogFormat, route_table};

/// Says what is guarded and how. The address of the last listener comes last: whoever waits for it can rely on all the
/// rest.
pub(super) fn gate(gate: &Gate, log: LogFormat) -> anyhow::Result<()> {
    let (config, version) = (&gate.config, env!("CARGO_PKG_VERSION"));
    let admin = gate.admin_listener.local_addr().context("the admin listener has no address")?;
    let Some(listener) = &gate.listener else {
        log.announce(&format!("oncegate {version} guards nothing and shows the records of others"));
        log.announce(&format!("store {}", config.store));
        log.announce(&format!("admin on http://{admin}"));
        return Ok(());
    };
    let listen = listener.local_addr().context("the listener has no address")?;
    log.announce(&format!("oncegate {version} guards {}", config.upstream));
    log.announce(&format!("store {}", config.store));
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
