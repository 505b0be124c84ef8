//! The body of POST: what is to be done, by whom and why.

use bytes::Bytes;
use oncegate_core::{Fence, Note, OperatorVerb, StateName, StoredResponse};
use serde_json::{Map, Value};

use super::{problem::Problem, query};
use crate::records::{desk::Ruling, response};

/// What a program asks for.
#[derive(Debug)]
pub(in crate::admin) struct Order {
    pub(super) fence: Fence,
    /// `None`: whatever the record's state is now.
    pub(super) state: Option<StateName>,
    pub(super) ruling: Ruling,
    pub(super) note: Note,
}

/// The operator, where the program does not say.
const OPERATOR: &str = "api";

impl Order {
    /// Reads JSON, for [`Order::read`].
    pub(super) fn parse(verb: OperatorVerb, body: &[u8]) -> Result<Self, Problem> {
        match serde_json::from_slice(body) {
            Ok(Value::Object(members)) => Self::read(verb, members),
            Ok(_) => Err(Problem::field("", "the body is JSON, but not an object")),
            Err(error) => Err(Problem::field("", format!("the body is not JSON: {error}"))),
        }
    }

    /// Reads `{fence, state?, reason, operator?, force?, response?}`.
    pub(in crate::admin) fn read(verb: OperatorVerb, members: Map<String, Value>) -> Result<Self, Problem> {
        let mut fields = Fields(members);
        let fence = fields.take("fence", "a whole number", Value::as_i64)?;
        let fence = Fence::new(fence.ok_or_else(|| missing("fence"))?);
        let state = fields.take_text("state")?.map(|word| query::state(&word)).transpose()?;
        let operator = fields.take_text("operator")?.unwrap_or_else(|| OPERATOR.to_owned());
        let reason = fields.take_text("reason")?.ok_or_else(|| missing("reason"))?;
        let note = Note::new(&operator, &reason).map_err(|error| Problem::field(error.field(), error.to_string()))?;
        let (ruling, force) = match verb {
            OperatorVerb::Resolve => (Ruling::Resolve(fields.take_response()?), false),
            OperatorVerb::Release => {
                (Ruling::Release, fields.take("force", "true or false", Value::as_bool)? == Some(true))
            }
            OperatorVerb::Purge => (Ruling::Purge, false),
        };
        fields.finish(verb)?;
        Ok(Self { fence, state, ruling, note: note.with_force(force) })
    }
}

/// A JSON object that is read member by member, so that each fault names its field.
struct Fields(Map<String, Value>);

impl Fields {
    fn take<T>(&mut self, name: &str, kind: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>, Problem> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => match read(&value) {
                Some(read) => Ok(Some(read)),
                None => Err(Problem::field(name, format!("{name} is not {kind}"))),
            },
        }
    }

    fn take_text(&mut self, name: &str) -> Result<Option<String>, Problem> {
        self.take(name, "text", |value| value.as_str().map(str::to_owned))
    }

    /// `{status, headers?, body?}`; headers as an object, or as a list of `[name, value]`.
    fn take_response(&mut self) -> Result<StoredResponse, Problem> {
        let members = self.take("response", "an object", |value| value.as_object().cloned())?;
        let mut fields = Self(members.ok_or_else(|| missing("response"))?);
        let status = fields.take("status", "a status", |value| value.as_u64()?.try_into().ok())?;
        let status: u16 = status.ok_or_else(|| missing("response.status"))?;
        let headers = fields.take("headers", "an object of text, or a list of [name, value]", headers)?;
        let body = Bytes::from(fields.take_text("body")?.unwrap_or_default());
        if let Some(name) = fields.0.keys().next() {
            return Err(Problem::field(&format!("response.{name}"), format!("there is no field response.{name}")));
        }
        let stored = response::stored(status, &headers.unwrap_or_default(), body);
        stored.map_err(|error| Problem::field(&format!("response.{}", error.field), error.to_string()))
    }

    fn finish(self, verb: OperatorVerb) -> Result<(), Problem> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(Problem::field(name, format!("{} has no field {name:?}", verb.as_str()))),
        }
    }
}

fn headers(value: &Value) -> Option<Vec<(String, String)>> {
    match value {
        Value::Object(members) => {
            let pair = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
            members.iter().map(pair).collect()
        }
        Value::Array(pairs) => {
            let pair = |value: &Value| match value.as_array()?.as_slice() {
                [name, value] => Some((name.as_str()?.to_owned(), value.as_str()?.to_owned())),
                _ => None,
            };
            pairs.iter().map(pair).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn missing(field: &str) -> Problem {
    Problem::field(field, format!("{field} is missing"))
}
