//! Looks for an order of calls that explains what came back.

use super::{
    call::{Call, Event, History, Reply, Round},
    model::{Moment, Slot},
};
use crate::RecordDigest;

/// Where no order explains what came back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unexplained {
    pub(super) round: usize,
    pub(super) record: RecordDigest,
    /// Whether the replies have an order, but none that leaves what was read afterwards.
    pub(super) is_read: bool,
}

/// Explains a history record by record: one verb touches one record, and a history of independent
/// records has an order when each of them has one.
pub(super) fn explain(history: &History) -> Result<(), Unexplained> {
    for (index, &record) in history.records.iter().enumerate() {
        let mut slots = vec![Slot::default()];
        for (number, round) in history.rounds.iter().enumerate() {
            let moments = moments(history, round);
            slots = after(&slots, &events(round, record), &moments);
            let had_order = !slots.is_empty();
            slots.retain(|slot| moments.iter().any(|at| reads_as(slot, &round.reads[index], *at)));
            if slots.is_empty() {
                return Err(Unexplained { round: number, record, is_read: had_order });
            }
        }
    }
    Ok(())
}

/// The moments at which a call of this round may have taken effect: one, unless the clock runs on.
fn moments(history: &History, round: &Round) -> Vec<Moment> {
    let [before, after] = round.times;
    let mut moments = vec![Moment { now: before, drift: history.drift }];
    if after != before {
        moments.push(Moment { now: after, drift: history.drift });
    }
    moments
}

/// What touched a record. Of a claim that its owner gave up nothing is left where it failed.
fn events(round: &Round, record: RecordDigest) -> Vec<&Event> {
    let about = round.events.iter().filter(|event| event.call.record().is_none_or(|about| about == record));
    about.filter(|event| !is_given_up(event, &round.events)).collect()
}

/// Whether a claim failed while its own withdrawal was under way, which may have come before it: then it must not stand.
fn is_given_up(event: &Event, round: &[Event]) -> bool {
    let (Call::Claim(request), Reply::Failed(_)) = (&event.call, &event.reply) else { return false };
    round.iter().any(|other| {
        let overlaps = other.sent < event.returned && event.sent < other.returned;
        let withdraws = matches!(&other.call, Call::Withdraw(record, owner)
            if *record == request.id.digest() && request.owner == Some(*owner));
        overlaps && withdraws
    })
}

fn reads_as(slot: &Slot, read: &Reply, at: Moment) -> bool {
    match read {
        Reply::Found(found) => slot.reads_as(found, at),
        Reply::Claim(_) | Reply::Written(_) | Reply::Reaped(_) | Reply::Failed(_) => false,
    }
}

/// What may be stored after these events, whatever their order was.
fn after(slots: &[Slot], events: &[&Event], moments: &[Moment]) -> Vec<Slot> {
    let mut found = Vec::new();
    for slot in slots {
        order(slot, events, moments, &mut found);
    }
    found
}

/// Tries every event that can have been the next one. A round has at most five.
fn order(slot: &Slot, left: &[&Event], moments: &[Moment], found: &mut Vec<Slot>) {
    if left.is_empty() {
        if !found.contains(slot) {
            found.push(slot.clone());
        }
        return;
    }
    for (index, event) in left.iter().enumerate() {
        if left.iter().any(|other| other.returned < event.sent) {
            continue;
        }
        let mut rest = left.to_vec();
        rest.remove(index);
        for at in moments {
            for next in slot.explain(&event.call, &event.reply, *at) {
                order(&next, &rest, moments, found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Owner, Timestamp, Written, conformance::trial::request};

    /// Whether a failed claim is explained beside a withdrawal by this owner, or by its own, that was under way meanwhile.
    fn is_explained(owner: Option<Owner>, withdrawal: [u64; 2]) -> bool {
        let request = request("k");
        let record = request.id.digest();
        let withdraw = Call::Withdraw(record, owner.or(request.owner).unwrap());
        let event = |call, reply, [sent, returned]: [u64; 2]| Event { caller: 0, call, reply, sent, returned };
        let failed = Reply::Failed("it was withdrawn".to_owned());
        let events = vec![
            event(Call::Claim(request), failed, [2, 5]),
            event(withdraw, Reply::Written(Written::Stale), withdrawal),
        ];
        let (times, reads) = ([Timestamp::from_micros(0); 2], vec![Reply::Found(Box::new(None))]);
        let history =
            History { records: vec![record], rounds: vec![Round { times, events, reads }], drift: Duration::ZERO };
        explain(&history).is_ok()
    }

    #[test]
    fn a_claim_fails_only_while_its_owner_withdraws_it() {
        assert!(is_explained(None, [3, 4]) && is_explained(None, [4, 6]));
        assert!(!is_explained(None, [6, 7]) && !is_explained(None, [0, 1]), "it was not meanwhile");
        assert!(!is_explained(Some(Owner::random()), [3, 4]), "another one withdraws");
    }
}
