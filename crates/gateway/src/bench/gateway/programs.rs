//! The programs that the benchmark runs.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

/// Where the programs are.
#[derive(Debug)]
pub(super) struct Programs {
    pub(super) wrk: PathBuf,
    pub(super) nginx: PathBuf,
    pub(super) oncegate: PathBuf,
}

/// Where Debian keeps what only administrators are thought to need.
const SYSTEM_DIRECTORY: &str = "/usr/sbin";

// === impl Programs ===

impl Programs {
    /// Looks them up in `PATH`.
    ///
    /// # Errors
    /// One is missing; the text says how to install it.
    pub(super) fn find() -> anyhow::Result<Self> {
        Self::find_in(&env::var_os("PATH").unwrap_or_default(), Some(Path::new(SYSTEM_DIRECTORY)))
    }

    fn find_in(path: &OsStr, more: Option<&Path>) -> anyhow::Result<Self> {
        let oncegate = env::current_exe().context("this program's own file cannot be found")?;
        let found = |name: &str| {
            let directories = env::split_paths(path).chain(more.map(Path::to_owned));
            directories.map(|directory| directory.join(name)).find(|file| file.is_file())
        };
        match [found("wrk"), found("nginx"), found("redis-server")] {
            [Some(wrk), Some(nginx), Some(_)] => Ok(Self { wrk, nginx, oncegate }),
            programs => {
                let named = ["wrk", "nginx", "redis-server"].into_iter().zip(programs);
                let missing: Vec<_> = named.filter(|(_, path)| path.is_none()).map(|(name, _)| name).collect();
                bail!("{} not found in PATH: apt-get install wrk nginx redis-server", missing.join(" and "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_missing_is_named_with_how_to_install_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().as_os_str();
        let error = Programs::find_in(path, None).unwrap_err().to_string();
        assert_eq!(error, "wrk and nginx and redis-server not found in PATH: apt-get install wrk nginx redis-server");
        fs::write(directory.path().join("wrk"), "").unwrap();
        fs::write(directory.path().join("redis-server"), "").unwrap();
        let error = Programs::find_in(path, None).unwrap_err().to_string();
        assert_eq!(error, "nginx not found in PATH: apt-get install wrk nginx redis-server");
        fs::write(directory.path().join("nginx"), "").unwrap();
        assert_eq!(Programs::find_in(path, None).unwrap().nginx, directory.path().join("nginx"));
    }
}
