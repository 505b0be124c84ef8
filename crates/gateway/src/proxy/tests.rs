//! The proxy between a scripted client and a scripted backend: each test plays both sides, byte by byte.

mod bodies;
mod connections;
mod expectation;
mod failures;
mod framing;
mod gate;
mod http2;
mod pool;
mod requests;
mod responses;
mod upgrade;
mod wire;
