//! Times and lengths of time as PostgreSQL's protocol has them: exact to the microsecond, without a time zone.

use std::{error::Error, time::Duration};

use bytes::{BufMut, BytesMut};
use oncegate_core::{RecordDigest, Timestamp};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use uuid::Uuid;

// === types ===

/// A `timestamptz`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At(pub(super) Timestamp);

/// An `interval`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

type BoxError = Box<dyn Error + Sync + Send>;

/// From 1970-01-01, where our time begins, to 2000-01-01, where PostgreSQL's does.
const MICROS_TO_2000: i64 = 946_684_800_000_000;

const MICROS_PER_DAY: i64 = 24 * 3600 * 1_000_000;

// === records ===

/// A digest as the primary key.
pub(super) fn uuid(record: RecordDigest) -> Uuid {
    Uuid::from_bytes(*record.as_bytes())
}

/// The primary key as a digest.
pub(super) fn digest(record: Uuid) -> RecordDigest {
    RecordDigest::from_bytes(*record.as_bytes())
}

/// What claims of a record exclude each other by: its first 64 bits. Two records that share them cost each other
/// a wait and nothing else.
pub(super) fn gate(record: RecordDigest) -> i64 {
    let (first, _) = record.as_bytes().split_first_chunk().expect("a digest has 16 bytes");
    i64::from_be_bytes(*first)
}

// === impl At ===

impl ToSql for At {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        out.put_i64(self.0.as_micros().saturating_sub(MICROS_TO_2000));
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for At {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, BoxError> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        Ok(Self(Timestamp::from_micros(micros.saturating_add(MICROS_TO_2000))))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }
}

// === impl Span ===

impl<'a> FromSql<'a> for Span {
    /// Days count 24 hours and months 30 days, as they do where PostgreSQL compares intervals.
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, BoxError> {
        let (micros, days) = raw.split_first_chunk().ok_or("an interval is cut short")?;
        let (days, months) = days.split_first_chunk().ok_or("an interval is cut short")?;
        let days = i64::from(i32::from_be_bytes(*days)) + 30 * i64::from(i32::from_be_bytes(months.try_into()?));
        let micros = i64::from_be_bytes(*micros).saturating_add(days.saturating_mul(MICROS_PER_DAY));
        Ok(Self(Duration::from_micros(u64::try_from(micros)?)))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::INTERVAL
    }
}

impl ToSql for Span {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        out.put_i64(i64::try_from(self.0.as_micros())?);
        out.put_i32(0);
        out.put_i32(0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::INTERVAL
    }

    to_sql_checked!();
}
