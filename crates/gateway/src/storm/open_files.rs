//! The limit on open files: every repeat is a socket.

use anyhow::{Context, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::plan::Plan;

/// Files open beside the sockets of the repeats: standard streams, the runtime, the connection of the count.
const OTHER_FILES: u64 = 64;

/// Raises the soft limit of this process as far as the plan needs it.
///
/// # Errors
///
/// The hard limit is lower; the text says what to do.
pub(super) fn allow(plan: &Plan) -> anyhow::Result<()> {
    let sockets = u64::from(plan.concurrency) * u64::from(plan.parallel_keys);
    let needed = sockets + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(maximum) = limit.maximum.filter(|&maximum| maximum < needed) {
        bail!(
            "{sockets} repeats at a time need {needed} open files and the hard limit is {maximum}: \
             raise it (ulimit -Hn {needed}) or lower --concurrency or --parallel-keys"
        );
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .with_context(|| format!("cannot raise the limit of open files to {needed}: try ulimit -n {needed}"))
}
