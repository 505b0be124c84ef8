//! The HTTP plumbing of the gateway: requests come in by [`accept()`] and go out by [`Upstream`].
//!
//! What stands between them sees a clean request and gives a clean response:
//!
//! ```text
//! client ─▶ accept ─▶ connection ─▶ edge ─▶ (the gate's own services) ─▶ upstream ─▶ backend
//!                                    │                                      │
//!                        request_head: RFC 9110 rules          response_head: RFC 9110 rules
//!                        errors become problem documents       errors are told apart by what was sent
//! ```
//!
//! Header rules, decided once:
//!
//! - **Removed both ways**: the fields that `Connection` names, `Connection` itself, `Keep-Alive`, `Proxy-Connection`,
//!   `TE` (except `trailers`), `Transfer-Encoding` and `Upgrade` (except where an upgrade was asked for, see below):
//!   the list of RFC 9110 section 7.6.1. `Trailer` and `Proxy-Authenticate`/`-Authorization` are not on that list and
//!   pass.
//! - **Refused** with 400: a `Connection` that names a field which others rely on (the key, `Authorization`, `Host`,
//!   a scope header, ...), since removing it would change what the request means behind us.
//! - **`Host`** is passed as the client sent it, as if the gateway was not there, so that a backend builds the same
//!   links and checks the same names; absolute-form targets and HTTP/2 authorities become `Host` (RFC 9112 3.2.2).
//! - **`X-Forwarded-For`** gets the client's address appended. `X-Forwarded-Proto` and `X-Forwarded-Host` are set only
//!   where they are missing: this process speaks no TLS, so whoever does stands in front of it and knows better.
//! - **`Via: 1.1 oncegate`** is added to requests (RFC 9110 7.6.3: a gateway MUST), not to responses (it MAY).
//! - **Framing** is hyper's: `Content-Length` passes, anything else is chunked again. Everything else, `Date` and
//!   cookies included, passes as it is, in its order and with its repetitions.
//! - **Trailers** pass both ways where `Trailer` declares them; to the client only if it said `TE: trailers`.
//! - **100 Continue** reaches the client only once somebody reads the body: the upstream's own 100 where the body is
//!   passed through. Other 1xx responses end here: hyper's server cannot send them.

mod accept;
mod alarm;
mod client_body;
mod connection;
mod edge;
mod fields;
mod forwarded;
mod head_timer;
mod hop_by_hop;
mod idle_timer;
mod open_files;
mod protected;
mod refusal;
mod request_head;
mod socket;
mod tunnel;
mod upstream;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    accept::{AcceptSettings, accept},
    client_body::ClientBody,
    edge::Failed,
    protected::ProtectedHeaders,
    upstream::{Settings, Upstream, UpstreamAddress},
};
