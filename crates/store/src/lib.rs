//! oncegate
