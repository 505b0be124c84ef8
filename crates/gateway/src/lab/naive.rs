//! What people write. Each program is as careful as its authors usually are, and wrong in one way.

mod check_then_act;
mod get_or_create;
mod no_in_progress_state;
mod no_time_limit;
mod select_for_update;
mod set_nx;
mod ttl_without_fence;
mod two_transactions;
mod unique_index;

use oncegate_store::lab::Database;

use super::program::Program;

/// All that this database can run, in the order in which they are expected to break: what every burst of repeats meets,
/// then what takes a worker that dies, then what takes one that stands still, then what takes a cache that forgets.
pub(super) fn all(database: &Database, has_cache: bool) -> Vec<Box<dyn Program>> {
    let mut programs: Vec<Box<dyn Program>> = vec![
        Box::new(check_then_act::CheckThenAct),
        Box::new(get_or_create::GetOrCreate),
        Box::new(unique_index::UniqueIndex),
        Box::new(no_in_progress_state::NoInProgressState),
        Box::new(two_transactions::TwoTransactions),
        Box::new(no_time_limit::NoTimeLimit),
        Box::new(ttl_without_fence::TtlWithoutFence),
    ];
    match database {
        Database::Postgres(_) => programs.insert(2, Box::new(select_for_update::SelectForUpdate)),
        // There are no locks on rows.
        Database::Sqlite(_) => {}
    }
    if has_cache {
        programs.push(Box::new(set_nx::SetNx));
    }
    programs
}
