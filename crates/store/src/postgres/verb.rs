//! Verbs on their way into a batch, and the answers on their way back.

use std::any::Any;
use std::time::Duration;

use oncegate_core::{ErrorKind, RecordDigest, StoreError};
use tokio::{sync::oneshot, time::Instant};
use tokio_postgres::{
    Row,
    types::{ToSql, Type},
};

use super::{
    batch::{Group, Like},
    value::Span,
};

// === types ===

/// One verb of the contract on one record, as a statement carries out a batch of it.
///
/// The statement's first parameter is the clock's offset. Each row of its answer names a `record` and a `verdict`;
/// a record without a row is held by somebody else.
pub(super) trait Verb: Send + Sync + Sized + 'static {
    /// What its caller is told.
    type Answer: Send;

    /// The statement.
    const SQL: &'static str;

    /// Whether it calls a function of the schema, which sets what it needs and whose plans the server keeps.
    const IS_PLANNED: bool = false;

    /// Whether it is worth nothing once its caller is gone. Such a verb is then not sent, and it is the first to be
    /// refused when the queue fills: what ends an execution must still find room.
    const NEEDS_CALLER: bool = false;

    /// For how long it is asked again while somebody else holds its record.
    const PATIENCE: Duration = Duration::from_secs(2);

    /// Which record.
    fn record(&self) -> RecordDigest;

    /// How many bytes of payload it writes.
    fn bytes(&self) -> usize {
        0
    }

    /// Whether it can be sent once more when its connection was lost, since it recognises its own success.
    fn recognises_itself(&self) -> bool;

    /// Notes that it was sent, and its connection lost: whether it was applied is open.
    fn lost(&mut self) {}

    /// The columns of a batch, beside the clock's offset.
    fn columns<'a>(batch: &[&'a Self]) -> Vec<Parameter<'a>>;

    /// Reads its answer.
    fn read(&self, row: &Row) -> Result<Told<Self::Answer>, StoreError>;

    /// What its caller is told when patience has ended and others are still at the record.
    fn give_up(&self, why: Unsettled) -> Result<Self::Answer, StoreError> {
        Err(why.to_store_error(self.record()))
    }
}

/// A value and its type: named, so that the server need not be asked what it expects.
pub(super) type Parameter<'a> = (Box<dyn ToSql + Sync + Send + 'a>, Type);

/// A statement with its parameters.
pub(super) struct Statement<'a> {
    pub(super) sql: &'static str,
    /// See [`Verb::IS_PLANNED`].
    pub(super) is_planned: bool,
    pub(super) parameters: Vec<Parameter<'a>>,
}

/// What one row says of a verb.
pub(super) enum Told<A> {
    /// Its answer.
    Answer(A),
    /// It was judged by what no longer held.
    Raced,
}

/// Why a verb has no answer yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsettled {
    /// Somebody else is at the record.
    Held,
    /// The record changed between the look and the write.
    Raced,
    /// The batch was rolled back for the sake of other transactions: that says nothing of the record.
    RolledBack,
}

/// A verb and whom to tell.
pub(super) struct Pending<V: Verb> {
    verb: V,
    caller: oneshot::Sender<Result<V::Answer, StoreError>>,
    /// When it was first sent.
    since: Option<Instant>,
    tries: u32,
    /// Whether a connection was lost on which it was sent: it may have been applied, whatever it is told since.
    is_lost: bool,
}

/// A [`Pending`] whose verb a lane need not know.
pub(super) trait Job: Any + Send + Sync {
    /// Which record.
    fn record(&self) -> RecordDigest;
    /// See [`Verb::bytes`].
    fn bytes(&self) -> usize;
    /// Whether anybody wants it done.
    fn is_wanted(&self) -> bool;
    /// After how long it is to be asked again.
    fn pause(&self) -> Duration;
    /// A batch of its verb.
    fn group(self: Box<Self>) -> Box<dyn Group>;
    /// Tells its caller what went wrong, if it is still there.
    fn fail(self: Box<Self>, error: StoreError);
    /// As its concrete type, for a group of the same verb.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send + Sync>;
}

/// The first try again comes at once; each later pause is twice as long, up to the last.
const PAUSES: [Duration; 7] = [
    Duration::ZERO,
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(4),
    Duration::from_millis(8),
    Duration::from_millis(16),
    Duration::from_millis(32),
];

// === impl Statement ===

impl<'a> Statement<'a> {
    /// A statement of one batch.
    pub(super) fn of<V: Verb>(batch: &[&'a V], offset: Span) -> Self {
        let mut parameters: Vec<Parameter<'a>> = vec![(Box::new(offset), Type::INTERVAL)];
        parameters.extend(V::columns(batch));
        Self { sql: V::SQL, is_planned: V::IS_PLANNED, parameters }
    }
}

// === impl Unsettled ===

impl Unsettled {
    fn to_store_error(self, record: RecordDigest) -> StoreError {
        let record = record.short();
        let text = match self {
            Self::Held => format!("record {record} is locked by another transaction"),
            Self::Raced => format!("others kept changing record {record}"),
            Self::RolledBack => format!("other transactions kept coming before record {record}"),
        };
        StoreError::new(ErrorKind::Unavailable, text).unapplied()
    }
}

// === impl Pending ===

impl<V: Verb> Pending<V> {
    pub(super) fn new(verb: V) -> (Self, oneshot::Receiver<Result<V::Answer, StoreError>>) {
        let (caller, answer) = oneshot::channel();
        (Self { verb, caller, since: None, tries: 0, is_lost: false }, answer)
    }

    pub(super) fn verb(&self) -> &V {
        &self.verb
    }

    /// It is sent now; patience begins with the first time.
    pub(super) fn sent(&mut self) {
        self.since.get_or_insert_with(Instant::now);
        self.tries += 1;
    }

    pub(super) fn answer(self, answer: Result<V::Answer, StoreError>) {
        // A caller that is gone has nobody to tell.
        drop(self.caller.send(answer));
    }

    fn answer_error(self, error: StoreError) {
        let error = if self.is_lost { error.perhaps_applied() } else { error };
        self.answer(Err(error));
    }

    /// To be asked again, unless patience has ended.
    pub(super) fn again(self, why: Unsettled) -> Option<Box<dyn Job>> {
        if self.since.is_some_and(|since| since.elapsed() >= V::PATIENCE) {
            // After a loss, who is at the record may be this verb itself, still being committed.
            if self.is_lost || why == Unsettled::RolledBack {
                let error = why.to_store_error(self.verb.record());
                self.answer_error(error);
            } else {
                let answer = self.verb.give_up(why);
                self.answer(answer);
            }
            return None;
        }
        Some(Box::new(self))
    }

    /// To be asked again after its connection was lost, if that can do no harm and patience has not ended.
    pub(super) fn after_loss(mut self, error: StoreError) -> Option<Box<dyn Job>> {
        let is_patient = self.since.is_none_or(|since| since.elapsed() < V::PATIENCE);
        if self.verb.recognises_itself() && is_patient {
            self.verb.lost();
            self.is_lost = true;
            return Some(Box::new(self));
        }
        self.answer(Err(error));
        None
    }
}

impl<V: Verb> Job for Pending<V> {
    fn record(&self) -> RecordDigest {
        self.verb.record()
    }

    fn bytes(&self) -> usize {
        self.verb.bytes()
    }

    fn is_wanted(&self) -> bool {
        !(V::NEEDS_CALLER && self.caller.is_closed())
    }

    fn pause(&self) -> Duration {
        let tries = usize::try_from(self.tries.saturating_sub(1)).unwrap_or(usize::MAX);
        PAUSES[tries.min(PAUSES.len() - 1)]
    }

    fn group(self: Box<Self>) -> Box<dyn Group> {
        Box::new(Like::of(*self))
    }

    fn fail(self: Box<Self>, error: StoreError) {
        self.answer_error(error);
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send + Sync> {
        self
    }
}
