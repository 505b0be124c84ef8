//! The scripts, one per verb, and calls of them.

use std::{sync::LazyLock, time::Duration};

use redis::Cmd;

// === types ===

/// A verb's script, known to the server by its digest once it was sent whole.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) verb: &'static str,
    text: &'static str,
    digest: String,
}

/// A script with what it is called with.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) script: &'static Script,
    keys: Vec<String>,
    arguments: Vec<Vec<u8>>,
}

/// What stands in a call.
pub(super) trait Argument {
    fn into_bytes(self) -> Vec<u8>;
}

/// Longer times would not be exact in a script, whose numbers are doubles: 31 years.
const MICROS_MAX: u128 = 1_000_000_000_000_000;

// === the scripts ===

macro_rules! script {
    ($verb:literal) => {
        LazyLock::new(|| Script::new($verb, concat!(include_str!("record.lua"), include_str!(concat!($verb, ".lua")))))
    };
}

pub(super) static CLAIM: LazyLock<Script> = script!("claim");
pub(super) static EXTEND: LazyLock<Script> = script!("extend");
pub(super) static COMPLETE: LazyLock<Script> = script!("complete");
pub(super) static DOUBT: LazyLock<Script> = script!("doubt");
pub(super) static RELEASE: LazyLock<Script> = script!("release");
pub(super) static WITHDRAW: LazyLock<Script> = script!("withdraw");
pub(super) static GET: LazyLock<Script> = script!("get");
pub(super) static LIST: LazyLock<Script> = script!("list");
pub(super) static RESOLVE: LazyLock<Script> = script!("resolve");
pub(super) static PURGE: LazyLock<Script> = script!("purge");
pub(super) static REAP: LazyLock<Script> = script!("reap");
pub(super) static CENSUS: LazyLock<Script> = script!("census");

#[cfg(feature = "postgres")]
macro_rules! front_script {
    ($verb:literal) => {
        LazyLock::new(|| {
            let text = concat!(include_str!("front/entry.lua"), include_str!(concat!("front/", $verb, ".lua")));
            Script::new($verb, text)
        })
    };
}

#[cfg(feature = "postgres")]
pub(super) static LOOK: LazyLock<Script> = front_script!("look");
#[cfg(feature = "postgres")]
pub(super) static FILL: LazyLock<Script> = front_script!("fill");
#[cfg(feature = "postgres")]
pub(super) static LEAVE: LazyLock<Script> = front_script!("leave");
#[cfg(feature = "postgres")]
pub(super) static FRONT_COMPLETE: LazyLock<Script> = front_script!("complete");
#[cfg(feature = "postgres")]
pub(super) static DISTRUST: LazyLock<Script> = front_script!("distrust");
#[cfg(feature = "postgres")]
pub(super) static BURY: LazyLock<Script> = front_script!("bury");
#[cfg(feature = "postgres")]
pub(super) static TAKE: LazyLock<Script> = front_script!("take");
#[cfg(feature = "postgres")]
pub(super) static FINISH: LazyLock<Script> = front_script!("finish");
#[cfg(feature = "postgres")]
pub(super) static SETTLE: LazyLock<Script> = front_script!("settle");
#[cfg(feature = "postgres")]
pub(super) static OPEN: LazyLock<Script> = front_script!("open");
#[cfg(feature = "postgres")]
pub(super) static FAREWELL: LazyLock<Script> = front_script!("farewell");

// === impl Script ===

impl Script {
    fn new(verb: &'static str, text: &'static str) -> Self {
        Self { verb, text, digest: redis::Script::new(text).get_hash().to_owned() }
    }
}

// === impl Call ===

impl Call {
    /// A call under the store's clock, or at the time of a test's.
    pub(super) fn new(script: &'static Script, keys: Vec<String>, now: Option<i64>) -> Self {
        let now = now.map_or_else(Vec::new, |now| now.to_string().into_bytes());
        Self { script, keys, arguments: vec![now] }
    }

    /// Adds an argument.
    pub(super) fn with(mut self, argument: impl Argument) -> Self {
        self.arguments.push(argument.into_bytes());
        self
    }

    /// The words of the call by digest, for a program that sends them itself.
    pub(super) fn words(&self) -> Vec<Vec<u8>> {
        let words = ["EVALSHA".to_owned(), self.script.digest.clone(), self.keys.len().to_string()].into_iter();
        words.chain(self.keys.iter().cloned()).map(String::into_bytes).chain(self.arguments.iter().cloned()).collect()
    }

    /// By the script's digest, which is short.
    pub(super) fn by_digest(&self) -> Cmd {
        self.command("EVALSHA", &self.script.digest)
    }

    /// With the script itself, which the server then knows: at first, after a restart, on a node that is new.
    pub(super) fn by_text(&self) -> Cmd {
        self.command("EVAL", self.script.text)
    }

    fn command(&self, name: &str, script: &str) -> Cmd {
        let mut command = redis::cmd(name);
        command.arg(script).arg(self.keys.len()).arg(&self.keys).arg(&self.arguments);
        command
    }
}

// === impl Argument ===

impl Argument for &str {
    fn into_bytes(self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

impl Argument for &[u8] {
    fn into_bytes(self) -> Vec<u8> {
        self.to_vec()
    }
}

impl Argument for bool {
    fn into_bytes(self) -> Vec<u8> {
        if self { b"1".to_vec() } else { b"0".to_vec() }
    }
}

impl Argument for u64 {
    fn into_bytes(self) -> Vec<u8> {
        self.to_string().into_bytes()
    }
}

impl Argument for i64 {
    fn into_bytes(self) -> Vec<u8> {
        self.to_string().into_bytes()
    }
}

/// In microseconds.
impl Argument for Duration {
    fn into_bytes(self) -> Vec<u8> {
        self.as_micros().min(MICROS_MAX).to_string().into_bytes()
    }
}
