//! What scripts answer, read in order.

use std::{str::FromStr, time::Duration, vec};

use bytes::Bytes;
use oncegate_core::{ErrorKind, StoreError, Timestamp, Written};
use redis::Value;

// === types ===

/// The values of one answer.
#[derive(Debug)]
pub(super) struct Reply {
    values: vec::IntoIter<Value>,
    verb: &'static str,
}

// === impl Reply ===

impl Reply {
    pub(super) fn of(value: Value, verb: &'static str) -> Result<Self, StoreError> {
        match value {
            Value::Array(values) => Ok(Self { values: values.into_iter(), verb }),
            Value::Map(pairs) => {
                let values: Vec<_> = pairs.into_iter().flat_map(|(name, value)| [name, value]).collect();
                Ok(Self { values: values.into_iter(), verb })
            }
            _ => Err(unexpected(verb)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.as_slice().is_empty()
    }

    pub(super) fn optional_bytes(&mut self) -> Result<Option<Bytes>, StoreError> {
        match self.values.next() {
            Some(Value::BulkString(bytes)) => Ok(Some(bytes.into())),
            Some(Value::SimpleString(text)) => Ok(Some(text.into())),
            Some(Value::Int(number)) => Ok(Some(number.to_string().into())),
            Some(Value::Nil) => Ok(None),
            _ => Err(unexpected(self.verb)),
        }
    }

    pub(super) fn bytes(&mut self) -> Result<Bytes, StoreError> {
        self.optional_bytes()?.ok_or_else(|| unexpected(self.verb))
    }

    pub(super) fn optional_text(&mut self) -> Result<Option<String>, StoreError> {
        let Some(bytes) = self.optional_bytes()? else { return Ok(None) };
        String::from_utf8(bytes.into()).map(Some).map_err(|error| unexpected(self.verb).with_source(error))
    }

    pub(super) fn text(&mut self) -> Result<String, StoreError> {
        self.optional_text()?.ok_or_else(|| unexpected(self.verb))
    }

    pub(super) fn number<T: FromStr>(&mut self) -> Result<T, StoreError> {
        self.text()?.parse().map_err(|_| unexpected(self.verb))
    }

    pub(super) fn time(&mut self) -> Result<Timestamp, StoreError> {
        self.number().map(Timestamp::from_micros)
    }

    pub(super) fn duration(&mut self) -> Result<Duration, StoreError> {
        self.number().map(Duration::from_micros)
    }

    /// A value that holds others.
    pub(super) fn inner(&mut self) -> Result<Self, StoreError> {
        Self::of(self.values.next().unwrap_or(Value::Nil), self.verb)
    }
}

/// What a write answers.
pub(super) fn written(value: &Value, verb: &'static str) -> Result<Written, StoreError> {
    match value {
        Value::Int(1) => Ok(Written::Done),
        Value::Int(0) => Ok(Written::Stale),
        _ => Err(unexpected(verb)),
    }
}

pub(super) fn unexpected(verb: &str) -> StoreError {
    StoreError::new(ErrorKind::Corrupt, format!("what Redis holds is damaged: the answer to {verb} cannot be read"))
}
