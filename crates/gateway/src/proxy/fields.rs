//! Which fields a message has.

use http::{HeaderMap, header};

/// The fields of a message that the rules are about.
///
/// Found in one pass over the names: most messages have none of them, and looking each one up would cost more than all
/// the rules together.
#[derive(Debug, Default, Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "one for each field")]
pub(super) struct Fields {
    pub(super) connection: bool,
    pub(super) expect: bool,
    pub(super) host: bool,
    /// `Keep-Alive` or `Proxy-Connection`.
    pub(super) keep_alive: bool,
    pub(super) te: bool,
    pub(super) transfer_encoding: bool,
    pub(super) upgrade: bool,
    pub(super) x_forwarded_for: bool,
    pub(super) x_forwarded_host: bool,
    pub(super) x_forwarded_proto: bool,
}

// === impl Fields ===

impl Fields {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut fields = Self::default();
        for name in headers.keys() {
            match *name {
                header::CONNECTION => fields.connection = true,
                header::EXPECT => fields.expect = true,
                header::HOST => fields.host = true,
                header::TE => fields.te = true,
                header::TRANSFER_ENCODING => fields.transfer_encoding = true,
                header::UPGRADE => fields.upgrade = true,
                _ => match name.as_str() {
                    "keep-alive" | "proxy-connection" => fields.keep_alive = true,
                    "x-forwarded-for" => fields.x_forwarded_for = true,
                    "x-forwarded-host" => fields.x_forwarded_host = true,
                    "x-forwarded-proto" => fields.x_forwarded_proto = true,
                    _ => {}
                },
            }
        }
        fields
    }
}
