//! The same handler on oncegate, in each of its modes.

mod layer;
mod sql_claim;
mod sql_enter;

use std::sync::Arc;

use oncegate_store::lab::Database;

use super::{program::Program, shop::Shop};

/// How the SQL functions store an answer, in the transaction of the effect.
const COMPLETE: &str = "SELECT CAST(oncegate.complete(CAST($1 AS uuid), CAST($2 AS bigint), 201, '[]', '') AS text)";

/// All that this database can run.
///
/// # Errors
/// The store cannot be opened.
pub(super) fn all(shop: &Arc<Shop>) -> anyhow::Result<Vec<Box<dyn Program>>> {
    let mut programs: Vec<Box<dyn Program>> = vec![Box::new(layer::Layered::new(shop)?)];
    match shop.database() {
        Database::Postgres(_) => {
            programs.push(Box::new(sql_claim::SqlClaim));
            programs.push(Box::new(sql_enter::SqlEnter));
        }
        // The SQL functions are PostgreSQL's.
        Database::Sqlite(_) => {}
    }
    Ok(programs)
}
