//! The store on SQLite: the contract's conformance suite, and what only this store promises.
#![cfg(feature = "sqlite")]

mod audit;
mod batches;
mod conformance;
mod files;
mod fixture;
mod rows;
#[path = "../shared/suspicion.rs"]
mod shared;
mod suspicion;
