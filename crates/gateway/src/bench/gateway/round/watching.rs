//! What watching costs: the gate as it comes, and with an access log, against one that counts nothing.

use super::{Bench, Between, FIRST_KEY, KNOWN_KEYS, Keys, Measured, Paced, Proxy};
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

/// One turn of all of them.
#[derive(Debug)]
pub(in crate::bench::gateway) struct WatchingRound {
    /// Passing, unique and memory of each.
    pub(in crate::bench::gateway) rows: Vec<(Watching, Between, Measured)>,
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
    /// Measures all in turns, each a short while, so that whatever slows the machine down meets all of them; who comes first
    /// changes from turn to turn.
    pub(in crate::bench::gateway) async fn watching(
        &self,
        number: u32,
        turns: u32,
    ) -> anyhow::Result<Vec<WatchingRound>> {
        let mut gates = Vec::new();
        for watching in Watching::ALL {
            gates.push((watching, self.watching_gate(watching, number).await?));
        }
        let mut measured = Vec::new();
        for turn in 0..turns {
            let mut rows = Vec::new();
            for (between, keys) in [
                (Between::Passing, Keys::None),
                (Between::Unique, Keys::Unique(format!("unique-{turn}-"))),
                (Between::Memory, Keys::Known("known-".to_owned(), KNOWN_KEYS)),
            ] {
                for (watching, gate) in &gates {
                    eprint!("  {:<11}", watching.name());
                    let (between, row) = self.row(between, gate.address, &gate.process, keys.clone()).await?;
                    rows.push((*watching, between, row));
                }
            }
            measured.push(WatchingRound { rows });
            gates.rotate_left(1);
        }
        for (_, gate) in gates {
            gate.process.stop().await?;
        }
        Ok(measured)
    }

    /// A gate that knows the keys of the row `memory`.
    async fn watching_gate(&self, watching: Watching, number: u32) -> anyhow::Result<Proxy> {
        let file = self.directory.join(format!("{}-{number}.db", watching.name().replace(' ', "-")));
        let mut command = self.gate_command(&format!("sqlite://{}", file.display()));
        command.args(watching.arguments()).envs(watching.variables().iter().copied());
        let gate = Proxy::start("the gate", &mut command).await?;
        self.warm_up(gate.address).await?;
        let mut client = Paced::connect(gate.address).await?;
        for key in FIRST_KEY..=KNOWN_KEYS {
            client.post(Some("known-"), key).await?;
        }
        Ok(gate)
    }
}
