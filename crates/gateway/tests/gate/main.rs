//! The real binary in front of a scripted service.

mod admin;
mod backend;
mod check;
mod config;
mod http;
mod process;
mod serve;
