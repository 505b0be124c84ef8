//! Looks for an order of calls that explains what came back.

use super::{
    call::{Event, History, Reply, Round},
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

fn events(round: &Round, record: RecordDigest) -> Vec<&Event> {
    round.events.iter().filter(|event| event.call.record().is_none_or(|about| about == record)).collect()
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
