//! suspect and suspected: one request under two keys.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use oncegate_core::{Clock, Filter, Operation, RecordDigest, Suspicion, Timestamp};
use rusqlite::{Row, named_params};

use super::{error::Failure, queue::Verb, session::Session};

// === types ===

/// When this process looked last: a look reads up to 50,000 records.
#[derive(Debug)]
pub(super) struct Look {
    clock: Arc<dyn Clock>,
    last: Mutex<Option<Timestamp>>,
}

/// Looks for them; the reader's part of the verb *suspect*.
pub(super) struct Pairs {
    pub(super) window: Duration,
}

/// Notes what was found, and answers what was not noted before; the writer's part.
pub(super) struct NotePairs(pub(super) Vec<Suspicion>);

/// The verb *suspected*.
pub(super) struct Noted {
    pub(super) rows: usize,
}

/// How long an execution may take and still be seen together with one that began with it.
const EXECUTION_MAX: Duration = Duration::from_mins(5);

/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_mins(1);

// === impl Look ===

impl Look {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, last: Mutex::new(None) }
    }

    /// Whether whoever asks is to look: once a minute. A clock that was put back ends the minute.
    pub(super) fn is_due(&self) -> bool {
        let now = self.clock.now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now < last || now.since(last) >= LOOK_PAUSE);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

// === the verbs ===

impl Verb for Pairs {
    type Answer = Vec<Suspicion>;
    const NEEDS_CALLER: bool = true;

    fn apply(&self, session: &Session<'_>) -> Result<Vec<Suspicion>, Failure> {
        let (now, window) = (session.now().as_micros(), micros(self.window));
        session.all(
            include_str!("pairs.sql"),
            named_params! {
                ":now": now,
                ":since": now.saturating_sub(window).saturating_sub(micros(EXECUTION_MAX)),
                ":window": window,
                ":rows": number(Suspicion::NOTED_MAX),
            },
            suspicion,
        )
    }
}

impl Verb for NotePairs {
    type Answer = Vec<Suspicion>;

    fn apply(&self, session: &Session<'_>) -> Result<Vec<Suspicion>, Failure> {
        let mut noted = Vec::new();
        for suspicion in self.0.iter().take(Suspicion::NOTED_MAX) {
            let inserted = session.execute(
                include_str!("note_suspicion.sql"),
                named_params! {
                    ":record": suspicion.record.as_bytes(),
                    ":earlier": suspicion.earlier.as_bytes(),
                    ":operation": suspicion.operation.as_str(),
                    ":is_anonymous": suspicion.is_anonymous,
                    ":created_at": suspicion.created_at.as_micros(),
                    ":earlier_at": suspicion.earlier_at.as_micros(),
                },
            )?;
            noted.extend((inserted > 0).then(|| suspicion.clone()));
        }
        let kept = named_params! {":kept": number(Suspicion::KEPT_MAX)};
        session.execute(include_str!("forget_suspicions.sql"), kept)?;
        Ok(noted)
    }
}

impl Verb for Noted {
    type Answer = Vec<Suspicion>;
    const NEEDS_CALLER: bool = true;

    fn apply(&self, session: &Session<'_>) -> Result<Vec<Suspicion>, Failure> {
        let rows = number(Filter::allowed(self.rows));
        session.all(include_str!("suspected.sql"), named_params! {":rows": rows}, suspicion)
    }
}

fn suspicion(row: &Row<'_>) -> Result<Suspicion, Failure> {
    Ok(Suspicion {
        record: RecordDigest::from_bytes(row.get("record")?),
        earlier: RecordDigest::from_bytes(row.get("earlier")?),
        operation: Operation::from_text(&row.get::<_, String>("operation")?),
        is_anonymous: row.get("is_anonymous")?,
        created_at: Timestamp::from_micros(row.get("created_at")?),
        earlier_at: Timestamp::from_micros(row.get("earlier_at")?),
    })
}

fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
