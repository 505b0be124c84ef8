//! The store on Redis against `redis-benchmark`, which sends the very same claim as many at once, and against the
//! `SET key value NX PX` that people mean when they say how fast Redis is.

use std::{ffi::OsString, os::unix::ffi::OsStringExt as _, process::Stdio, sync::Arc, time::Duration};

use anyhow::{Context as _, ensure};
use oncegate_core::{Backend, Owner, Policy, Store};
use oncegate_store::redis::{Options, RedisStore, yardstick};
use tokio::{process::Command, time::sleep};
use uuid::Uuid;

use super::{
    Size,
    load::{Recipe, Seen, number},
    report::{Kind, Report, Round},
    row::Row,
};
use crate::bench::{cpu, cycle, redis::Servers};

// === types ===

/// Which servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Which {
    /// One server
    Single,
    /// A Cluster of three, all on this machine
    Cluster,
}

/// A store on servers that nobody else uses.
struct Place {
    servers: Servers,
    which: Which,
    store: Arc<RedisStore>,
    options: Options,
}

/// A new server refuses claims for so long; not zero, or claims would not look whether it is new.
const COLD: Duration = Duration::from_millis(1);

/// Requests of `redis-benchmark` at least: with fewer, its start counts.
const REQUESTS_MIN: f64 = 10_000.0;

/// Among so many keys it chooses by chance: what it can count to.
const KEYS: &str = "2000000000";

/// The share of its requests that must have met a new key.
const NEW_MIN: f64 = 0.99;

/// Longer than any answer of this benchmark is kept, in milliseconds.
const KEPT: &str = "86400000";

// === the rounds ===

/// Runs all rounds, each on new servers.
pub(super) async fn measure(which: Which, size: Size) -> anyhow::Result<Report> {
    let mut report = Report::new(Kind::Redis, size, "redis-server of its own".to_owned());
    for number in 1..=size.rounds {
        eprintln!("round {number} of {}", size.rounds);
        let place = Place::prepare(which).await?;
        if number == 1 {
            report.store = place.servers.url();
        }
        report.rounds.push(place.round(size).await?);
        place.servers.stop().await?;
    }
    Ok(report)
}

// === impl Place ===

impl Place {
    async fn prepare(which: Which) -> anyhow::Result<Self> {
        let servers = match which {
            Which::Single => Servers::single().await?,
            Which::Cluster => Servers::cluster().await?,
        };
        let mut options = Options::default();
        options.cold = COLD;
        let store = Arc::new(RedisStore::open(&servers.url().parse()?, options.clone())?);
        // Asks all of its tags, so that all of them are known from now on.
        store.census().await?;
        sleep(COLD * 2).await;
        Ok(Self { servers, which, store, options })
    }

    async fn round(&self, size: Size) -> anyhow::Result<Round> {
        let store = || Arc::clone(&self.store) as Arc<dyn Store>;
        let ours = self.loaded("ours", Recipe::Ours(store()), size).await?;
        let claims = self.loaded("ours-claims", Recipe::Claims(store()), size).await?;
        let benchmark = self.benchmark("benchmark-claims", || self.claim(), size).await?;
        let set = self.benchmark("benchmark-set", || Ok(self.set()), size).await?;
        Ok(Round { rows: vec![ours, claims, benchmark, set], lone: None })
    }

    /// A claim, each time of other records: `redis-benchmark` begins with the same numbers whenever it is started.
    fn claim(&self) -> anyhow::Result<Vec<Vec<u8>>> {
        let key = Uuid::new_v4().to_string();
        let mut request = cycle::request("benchmark", &key, &Arc::new(Policy::gateway(Backend::Plain)))?;
        // Without a zero byte, which could not be in an argument of a program.
        request.owner = Some(Owner::from_bytes([b'o'; 16]));
        Ok(yardstick::claim(&request, &self.options, self.tag()))
    }

    fn set(&self) -> Vec<Vec<u8>> {
        let key = format!("oncegate:{}:{}:__rand_int__", self.tag(), Uuid::new_v4());
        ["SET", &key, "1", "NX", "PX", KEPT].map(|word| word.as_bytes().to_vec()).into()
    }

    /// Hash tags of a Cluster's nodes are dealt out by `redis-benchmark`.
    fn tag(&self) -> &'static str {
        match self.which {
            Which::Single => "{00}",
            Which::Cluster => "{tag}",
        }
    }

    async fn loaded(&self, name: &str, recipe: Recipe, size: Size) -> anyhow::Result<Row> {
        let before = self.store.census().await?;
        let (client, servers) = (cpu::of_process(std::process::id())?, self.cpu()?);
        let seen = recipe.load(name, size.callers, size.seconds).await?;
        let client_cpu = cpu::of_process(std::process::id())?.saturating_sub(client);
        let server_cpu = Some(self.cpu()?.saturating_sub(servers));
        let after = self.store.census().await?;
        let counted = after.completed + after.in_flight - before.completed - before.in_flight;
        Ok(self.row(name, size, Row { counted, client_cpu, server_cpu, ..Row::of(seen) }))
    }

    /// Lets `redis-benchmark` send requests for about as long as a row, with as many at once.
    async fn benchmark(
        &self,
        name: &str,
        words: impl Fn() -> anyhow::Result<Vec<Vec<u8>>>,
        size: Size,
    ) -> anyhow::Result<Row> {
        let rate = self.sent(words()?, REQUESTS_MIN, size).await?;
        let requests = (rate * f64::from(size.seconds)).max(REQUESTS_MIN).round();
        let (client, servers) = (cpu::of_ended_children()?, self.cpu()?);
        let keys = self.keys().await?;
        let rate = self.sent(words()?, requests, size).await?;
        let written = number(self.keys().await? - keys);
        ensure!(
            written >= requests * NEW_MIN,
            "{requests} requests of redis-benchmark wrote {written} keys: it repeats itself"
        );
        let client_cpu = cpu::of_ended_children()?.saturating_sub(client);
        let server_cpu = Some(self.cpu()?.saturating_sub(servers));
        let mut seen = Seen::none();
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number, and not below zero"
        )]
        let cycles = requests as u64;
        seen.cycles = cycles;
        seen.took = Duration::from_secs_f64(requests / rate);
        Ok(self.row(name, size, Row { client_cpu, server_cpu, ..Row::of(seen) }))
    }

    /// How many a second it sent.
    async fn sent(&self, words: Vec<Vec<u8>>, requests: f64, size: Size) -> anyhow::Result<f64> {
        let [first, ..] = self.servers.nodes() else { unreachable!("there is one at least") };
        let connections = self.servers.nodes().len();
        let mut command = Command::new("redis-benchmark");
        command.args(["-h", "127.0.0.1", "-p", &first.address().port().to_string(), "--csv"]);
        command.args(["-r", KEYS, "-n", &requests.to_string(), "-c", &connections.to_string()]);
        command.args(["-P", &size.callers.div_ceil(connections).to_string()]);
        if self.which == Which::Cluster {
            command.arg("--cluster");
        }
        command.args(words.into_iter().map(OsString::from_vec)).stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output().await.context("redis-benchmark does not start: apt-get install redis-tools")?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "redis-benchmark failed:\n{}", String::from_utf8_lossy(&output.stderr));
        per_second_of(&said).with_context(|| format!("redis-benchmark says:\n{said}"))
    }

    /// How many keys there are.
    async fn keys(&self) -> anyhow::Result<u64> {
        let mut sum = 0;
        for node in self.servers.nodes() {
            sum += node.keys().await?;
        }
        Ok(sum)
    }

    fn row(&self, name: &str, size: Size, row: Row) -> Row {
        eprintln!("  {name:<16} {:>8.0}/s", row.seen.per_second());
        Row { name: name.to_owned(), callers: size.callers, ..row }
    }

    fn cpu(&self) -> anyhow::Result<Duration> {
        self.servers.nodes().iter().map(|node| cpu::of_process(node.pid())).sum()
    }
}

/// The second field of the last line: `"EVALSHA …","12345.67","1.234",…`, eight in all.
fn per_second_of(csv: &str) -> Option<f64> {
    let line = csv.lines().last()?;
    line.rsplit("\",\"").nth(6)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_found_behind_arguments_of_any_kind() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
                   \"p99_latency_ms\",\"max_latency_ms\"\n\
                   \"SET a,b NX\",\"49019.61\",\"0.5\",\"0.1\",\"0.4\",\"0.9\",\"1.1\",\"2.0\"\n";
        assert_eq!(per_second_of(csv), Some(49019.61));
        assert_eq!(per_second_of("ERR unknown command"), None);
    }
}
