//! A Python virtual environment with pinned requirements, made once and kept under the target directory.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::program::run;

/// A virtual environment in which all requirements are installed.
pub(crate) struct VirtualEnvironment {
    directory: PathBuf,
}

impl VirtualEnvironment {
    /// The environment for a requirements file: the kept one when neither the file nor Python changed since.
    ///
    /// Safe to call from many tests at once, in one process or in several: the others wait for the first.
    ///
    /// # Errors
    ///
    /// Python or its `venv` module is missing (the text says what to install), or pip fails.
    pub(crate) fn with(requirements: &Path) -> anyhow::Result<Self> {
        let wanted =
            fs::read_to_string(requirements).with_context(|| format!("cannot read {}", requirements.display()))?;
        let mut version = Command::new("python3");
        version.args(["-c", "import sys; print(sys.executable, sys.version)"]);
        let python = run(version).context("Python is needed: apt-get install python3 python3-venv")?;
        // Its result may differ between releases of Rust; that costs one more installation.
        let mut hasher = DefaultHasher::new();
        (&wanted, &python).hash(&mut hasher);
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python-{:016x}", hasher.finish()));

        let lock = File::create(directory.with_extension("lock"))?;
        lock.lock()?;
        let environment = Self { directory };
        if !environment.installed().exists() {
            environment.install(requirements)?;
        }
        Ok(environment)
    }

    /// A program of the environment, such as `python` or a script of a package.
    pub(crate) fn program(&self, name: &str) -> Command {
        Command::new(self.directory.join("bin").join(name))
    }

    fn install(&self, requirements: &Path) -> anyhow::Result<()> {
        let mut venv = Command::new("python3");
        // --clear: an earlier installation may have been interrupted.
        venv.args(["-m", "venv", "--clear"]).arg(&self.directory);
        run(venv).context("cannot make a virtual environment: apt-get install python3-venv")?;
        let mut pip = self.program("python");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--requirement"])
            .arg(requirements);
        run(pip).context("cannot install the requirements")?;
        // Last, so that an interrupted installation is never taken for a whole one.
        File::create(self.installed())?;
        Ok(())
    }

    /// The file whose presence says that everything is installed.
    fn installed(&self) -> PathBuf {
        self.directory.join("installed")
    }
}
