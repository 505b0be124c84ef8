//! How people name a record: by its first digits, or by the client's key.

use oncegate_core::{Filter, IdempotencyKey, Record, RecordPrefix, StoreError};

use super::{
    desk::{self, Desk},
    table,
};

/// The one record whose digest begins so.
///
/// # Errors
/// When `text` is no prefix, names none, or names several.
pub(super) async fn by_digits(desk: &Desk, text: &str) -> anyhow::Result<Record> {
    let Some(prefix) = RecordPrefix::parse(text) else {
        let min = RecordPrefix::DIGITS_MIN;
        anyhow::bail!("{text:?} is not a record: write its UUID, or {min} or more of its first digits");
    };
    one(desk.begin_with(prefix).await?, text)
}

/// The one record whose digest begins so or whose key it is, in a scope that has this part.
///
/// # Errors
/// When it names none, or several.
pub(super) async fn by_digits_or_key(desk: &Desk, text: &str, scope_part: Option<&str>) -> anyhow::Result<Record> {
    one(all(desk, text, scope_part).await?, text)
}

/// Every record whose digest begins so or whose key it is, in a scope that has this part.
pub(crate) async fn all(desk: &Desk, text: &str, scope_part: Option<&str>) -> Result<Vec<Record>, StoreError> {
    let in_scope = || Filter { scope_part: scope_part.map(str::to_owned), ..Filter::default() };
    let mut found = Vec::new();
    if let Some(prefix) = RecordPrefix::parse(text) {
        found = desk.list(&Filter { prefix: Some(prefix), ..in_scope() }).await?;
    }
    if let Ok((key, _)) = IdempotencyKey::parse(text.as_bytes()) {
        let by_key = desk.list(&Filter { key: Some(key), ..in_scope() }).await?;
        found.extend(by_key.into_iter().filter(|record| !found.contains(record)).collect::<Vec<_>>());
    }
    Ok(found)
}

fn one(mut found: Vec<Record>, text: &str) -> anyhow::Result<Record> {
    match found.len() {
        0 => anyhow::bail!(
            "no record is named {text:?}: it expired, was deleted, or is in another store; see oncegate records list"
        ),
        1 => Ok(found.remove(0)),
        count => anyhow::bail!(
            "{count} records are named {text:?}: name one of them by its digits, or narrow it with --scope\n{}",
            table::of_records(&found, desk::now())
        ),
    }
}
