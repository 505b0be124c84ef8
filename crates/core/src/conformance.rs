//! The suite that every store runs.
