//! Redis in front of PostgreSQL: the contract, and what only this store promises.

mod cluster;
mod conformance;
mod faults;
mod front;
mod load;
mod outbox;
mod place;
