//! A history as a table that people can read.

use std::fmt::Write as _;

use super::{
    call::{Call, Event, History, Reply, Round},
    judge::Unexplained,
};
use crate::{Claim, ClaimRequest, Lease, Owner, Record, RecordDigest, Seen, State, StoredResponse, Timestamp};

/// The history up to the round that nothing explains.
pub(super) fn table(history: &History, unexplained: &Unexplained) -> String {
    let start = history.rounds[0].times[0];
    let names = Names { records: &history.records, start };
    let mut text = String::new();
    for (number, round) in history.rounds.iter().enumerate().take(unexplained.round + 1) {
        let seconds = round.times[0].since(start).as_secs_f64();
        writeln!(text, "round {number} at {seconds} s").expect("writing to a string cannot fail");
        text.push_str(&names.round(round));
    }
    let record = names.record(unexplained.record);
    let what = match unexplained.is_read {
        true => format!("what was read of {record} after round {}", unexplained.round),
        false => format!("what round {} answered about {record}", unexplained.round),
    };
    writeln!(text, "no order of the calls explains {what}").expect("writing to a string cannot fail");
    text
}

/// Short names: records by number, owners by their first digits, times since the history began.
struct Names<'a> {
    records: &'a [RecordDigest],
    start: Timestamp,
}

impl Names<'_> {
    fn round(&self, round: &Round) -> String {
        let mut rows: Vec<[String; 4]> = Vec::new();
        for Event { caller, call, reply, sent, returned } in &round.events {
            rows.push([format!("caller {caller}"), format!("{sent}..{returned}"), self.call(call), self.reply(reply)]);
        }
        for (record, read) in self.records.iter().zip(&round.reads) {
            rows.push([
                "afterwards".to_owned(),
                String::new(),
                format!("get {}", self.record(*record)),
                self.reply(read),
            ]);
        }
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths = [width(0), width(1), width(2)];
        let line = |[who, when, call, reply]: &[String; 4]| {
            format!("  {who:<0$}  {when:<1$}  {call:<2$}  → {reply}\n", widths[0], widths[1], widths[2])
        };
        rows.iter().map(line).collect()
    }

    fn record(&self, record: RecordDigest) -> String {
        self.records.iter().position(|known| *known == record).map_or_else(|| record.short(), |key| format!("k{key}"))
    }

    fn call(&self, call: &Call) -> String {
        let subject = call.record().map_or_else(String::new, |record| format!(" {}", self.record(record)));
        let arguments = match call {
            Call::Claim(request) => claim(request),
            Call::Extend(with, length) => format!(" {}, {length:?}", lease(with)),
            Call::Complete(with, response) => format!(" {}, {}", lease(with), response.status),
            Call::Doubt(with, reason) => format!(" {}, {:?}", lease(with), reason.as_str()),
            Call::Release(with) => format!(" {}", lease(with)),
            Call::Withdraw(_, by) => owner(Some(*by)),
            Call::Resolve(seen, response) => format!(" as {}, {}", sight(seen), response.status),
            Call::Purge(seen, force) => format!(" as {}, force {force}", sight(seen)),
            Call::Get(_) | Call::Reap => String::new(),
        };
        format!("{}{subject}{arguments}", call.verb())
    }

    fn reply(&self, reply: &Reply) -> String {
        match reply {
            Reply::Claim(claim) => self.answer(claim),
            Reply::Written(written) => format!("{written:?}"),
            Reply::Found(found) => match &**found {
                Some((record, response)) => self.row(record, response.as_ref()),
                None => "absent".to_owned(),
            },
            Reply::Reaped(reaped) => format!("{} expired, {} doubted", reaped.expired, reaped.doubted),
            Reply::Failed(error) => format!("failed: {error}"),
        }
    }

    fn answer(&self, claim: &Claim) -> String {
        match claim {
            Claim::Acquired(given) => {
                let Lease { attempt, length, created_at, .. } = given;
                let born = self.time(*created_at);
                format!("acquired {}, attempt {attempt}, for {length:?}, born at {born}", lease(given))
            }
            Claim::Completed(completed) => {
                let (status, at) = (completed.response.status, self.time(completed.completed_at));
                format!("completed: {status} at {at}, expires in {:?}", completed.expires_in)
            }
            Claim::InFlight { retry_after } => format!("in flight, retry after {retry_after:?}"),
            Claim::Mismatch(first) => format!("mismatch, the first is {}", first.state.as_str()),
            Claim::Unknown(doubted) => {
                format!("unknown since {}: {}", self.time(doubted.since), doubted.reason.as_str())
            }
            Claim::RulesChanged { .. } => "rules changed".to_owned(),
        }
    }

    fn row(&self, record: &Record, response: Option<&StoredResponse>) -> String {
        let state = match &record.state {
            State::InFlight { lease_until } => format!("in flight until {}", self.time(*lease_until)),
            State::Completed { completed_at, status } => format!("completed {status} at {}", self.time(*completed_at)),
            State::Unknown { since, reason } => format!("unknown since {}: {}", self.time(*since), reason.as_str()),
        };
        let Record { fence, attempt, on_abandoned, fingerprint, .. } = record;
        let (by, rule, expires) = (owner(record.owner), on_abandoned.as_str(), self.time(record.expires_at));
        let stored = response.map_or_else(String::new, |response| format!(", with {}", response.status));
        format!("{state}, fence {fence}{by}, attempt {attempt}, {rule}, {fingerprint:?}, expires at {expires}{stored}")
    }

    fn time(&self, time: Timestamp) -> String {
        let seconds = (time.as_micros() - self.start.as_micros()) as f64 / 1e6;
        format!("{seconds} s")
    }
}

fn claim(request: &ClaimRequest) -> String {
    let rule = request.policy.on_abandoned.as_str();
    format!(" {:?}, {rule}{}", request.fingerprint, owner(request.owner))
}

fn lease(lease: &Lease) -> String {
    format!("fence {}{}", lease.fence, owner(lease.owner))
}

fn sight(seen: &Seen) -> String {
    format!("fence {} {}", seen.fence, seen.state.as_str())
}

fn owner(owner: Option<Owner>) -> String {
    owner.map_or_else(String::new, |owner| format!(" of {:02x}{:02x}", owner.as_bytes()[0], owner.as_bytes()[1]))
}
