//! What breaks first.

use super::{program::Kind, shop::Fault, storm::Row};

// === types ===

/// The mildest storm that a program did not survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(super) struct Break {
    pub(super) implementation: &'static str,
    pub(super) fault: Fault,
    pub(super) concurrency: usize,
    /// What went wrong there, the worst first.
    pub(super) failure: &'static str,
}

// === impl Break ===

impl Break {
    /// At which storm.
    pub(super) fn circumstances(&self) -> String {
        let clients = self.concurrency;
        match self.fault {
            Fault::None => format!("at {clients} at once"),
            fault => format!("at {clients} at once, {fault}"),
        }
    }

    fn storm(&self) -> (Fault, usize) {
        (self.fault, self.concurrency)
    }
}

// === the order ===

/// For each naive program the first row that failed; mildest storms first, and within them in the order of the rows.
pub(super) fn of(rows: &[Row]) -> Vec<Break> {
    let mut breaks: Vec<Break> = Vec::new();
    for row in rows.iter().filter(|row| row.kind == Kind::Naive && row.has_failed()) {
        let Row { implementation, fault, concurrency, .. } = *row;
        let found = Break { implementation, fault, concurrency, failure: failure(row) };
        match breaks.iter_mut().find(|known| known.implementation == implementation) {
            Some(known) if found.storm() < known.storm() => *known = found,
            Some(_) => {}
            None => breaks.push(found),
        }
    }
    breaks.sort_by_key(Break::storm);
    breaks
}

/// Whether programs broke in the order in which their rows are, the expected one.
pub(super) fn is_expected(order: &[Break], rows: &[Row]) -> bool {
    order.is_sorted_by_key(|found| rows.iter().position(|row| row.implementation == found.implementation))
}

fn failure(row: &Row) -> &'static str {
    if row.duplicates > 0 {
        "pays twice"
    } else if row.false_successes > 0 {
        "says paid, and is not"
    } else if row.stuck > 0 {
        "blocks its key"
    } else {
        "answers 500"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(implementation: &'static str, fault: Fault, concurrency: usize, duplicates: u64, errors: u64) -> Row {
        Row {
            implementation,
            kind: Kind::Naive,
            fault,
            concurrency,
            keys: 10,
            executed: 10,
            duplicates,
            errors,
            first_error: None,
            false_successes: 0,
            stuck: 0,
            clients: 10,
            answered: 10,
        }
    }

    #[test]
    fn the_mildest_storm_comes_first() {
        let rows = [
            row("pauses", Fault::None, 300, 0, 0),
            row("pauses", Fault::Pause, 5, 3, 0),
            row("races", Fault::None, 50, 9, 0),
            row("races", Fault::None, 5, 1, 4),
            row("refuses", Fault::None, 2, 0, 7),
        ];
        let order: Vec<_> =
            of(&rows).iter().map(|found| (found.implementation, found.concurrency, found.failure)).collect();
        assert_eq!(order, [("refuses", 2, "answers 500"), ("races", 5, "pays twice"), ("pauses", 5, "pays twice")]);
    }

    #[test]
    fn another_order_than_the_expected_one_is_seen() {
        let (races, pauses) = (row("races", Fault::None, 2, 1, 0), row("pauses", Fault::Pause, 5, 1, 0));
        let expected = [races.clone(), pauses.clone()];
        assert!(is_expected(&of(&expected), &expected));
        let other = [pauses, races];
        assert!(!is_expected(&of(&other), &other));
    }

    #[test]
    fn what_did_not_break_is_not_in_it() {
        assert_eq!(of(&[row("sound", Fault::None, 300, 0, 0)]), []);
        let ours = Row { kind: Kind::Oncegate, ..row("ours", Fault::None, 2, 1, 0) };
        assert_eq!(of(&[ours]), []);
    }
}
