//! The limit on open files: every connection is one, on both sides.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of this process to its hard limit, as servers do: the usual soft limit of 1024 is meant for
/// programs that use `select`. Where that fails the soft limit stays, and the accept loop copes with it.
pub(super) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
}
