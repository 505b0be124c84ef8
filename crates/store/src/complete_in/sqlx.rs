//! On connections of sqlx.

use std::borrow::Cow;

use sqlx::{Error, PgConnection, error::DatabaseError};

use super::{COMPLETE, Completion, sealed::Call};

impl Call for &mut PgConnection {
    type Error = Error;

    async fn call(self, completion: Completion<'_>) -> Result<(), Error> {
        let Completion { record, fence, status, headers, body } = completion;
        let call = sqlx::query(COMPLETE).bind(record).bind(fence).bind(status).bind(headers).bind(body);
        call.persistent(false).execute(self).await.map(drop)
    }

    fn code(error: &Error) -> Option<Cow<'_, str>> {
        error.as_database_error().and_then(DatabaseError::code)
    }
}
