//! One round of what watching costs: the gate as it comes, and with an access log, against one that counts nothing.

use super::{Bench, Between, FIRST_KEY, KNOWN_KEYS, Keys, Measured, Paced, Proxy};
use crate::bench::cpu;

// === types ===

/// How closely a gate watches what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench::gateway) enum Watching {
    /// Neither metrics nor suspicions.
    Nothing,
    /// As it comes.
    Defaults,
    /// And a line for each request.
    Logged,
}

/// One round.
#[derive(Debug)]
pub(in crate::bench::gateway) struct WatchingRound {
    /// Passing, unique and memory of each.
    pub(in crate::bench::gateway) rows: Vec<(Watching, Between, Measured)>,
    /// CPU time per passing request in microseconds, of the first, and of the second at the same time.
    pub(in crate::bench::gateway) beside: (f64, f64),
}

// === impl Watching ===

impl Watching {
    pub(in crate::bench::gateway) const ALL: [Self; 3] = [Self::Nothing, Self::Defaults, Self::Logged];

    pub(in crate::bench::gateway) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Defaults => "defaults",
            Self::Logged => "access log",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Nothing => &["--unwatched"],
            Self::Defaults | Self::Logged => &[],
        }
    }

    fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Nothing | Self::Defaults => &[],
            Self::Logged => &[("ONCEGATE__ACCESS_LOG__FORMAT", "json")],
        }
    }
}

// === impl Bench ===

impl Bench {
    /// Measures each once; who comes first changes from round to round.
    pub(in crate::bench::gateway) async fn watching(&self, number: u32) -> anyhow::Result<WatchingRound> {
        let mut rows = Vec::new();
        let first = usize::try_from(number).unwrap_or_default();
        for watching in (0..Watching::ALL.len()).map(|index| Watching::ALL[(first + index) % Watching::ALL.len()]) {
            eprintln!("  watching {}", watching.name());
            rows.extend(self.watched(number, watching).await?);
        }
        let nothing = self.watching_gate("beside-nothing", number, Watching::Nothing).await?;
        let defaults = self.watching_gate("beside-defaults", number, Watching::Defaults).await?;
        let beside = self.both(&nothing, &defaults).await?;
        nothing.process.stop().await?;
        defaults.process.stop().await?;
        Ok(WatchingRound { rows, beside })
    }

    async fn watched(&self, number: u32, watching: Watching) -> anyhow::Result<Vec<(Watching, Between, Measured)>> {
        let gate = self.watching_gate(watching.name(), number, watching).await?;
        let mut client = Paced::connect(gate.address).await?;
        for key in FIRST_KEY..=KNOWN_KEYS {
            client.post(Some(&format!("known-{key}"))).await?;
        }
        let mut rows = Vec::new();
        for (between, keys) in [
            (Between::Passing, Keys::None),
            (Between::Unique, Keys::Unique("unique-".to_owned())),
            (Between::Memory, Keys::Known("known-".to_owned(), KNOWN_KEYS)),
        ] {
            let (between, measured) = self.row(between, gate.address, &gate.process, keys).await?;
            rows.push((watching, between, measured));
        }
        gate.process.stop().await?;
        Ok(rows)
    }

    async fn watching_gate(&self, name: &str, number: u32, watching: Watching) -> anyhow::Result<Proxy> {
        let file = self.directory.join(format!("{}-{number}.db", name.replace(' ', "-")));
        let mut command = self.gate_command(&format!("sqlite://{}", file.display()));
        command.args(watching.arguments()).envs(watching.variables().iter().copied());
        let gate = Proxy::start("the gate", &mut command).await?;
        self.warm_up(gate.address).await?;
        Ok(gate)
    }

    /// CPU time per request of two gates that are loaded at the same time.
    async fn both(&self, one: &Proxy, other: &Proxy) -> anyhow::Result<(f64, f64)> {
        self.settled().await?;
        let cpu = || anyhow::Ok([cpu::of_process(one.process.pid())?, cpu::of_process(other.process.pid())?]);
        let before = cpu()?;
        let load = |address| self.wrk.load(address, &Keys::None, self.seconds);
        let (seen, seen_by_other) = tokio::try_join!(load(one.address), load(other.address))?;
        let after = cpu()?;
        let used = |index: usize| after[index].saturating_sub(before[index]);
        Ok((seen.share_of(used(0)), seen_by_other.share_of(used(1))))
    }
}
