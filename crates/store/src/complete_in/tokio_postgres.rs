//! On connections of tokio-postgres.

use std::borrow::Cow;

use tokio_postgres::{Error, GenericClient, types::Type};

use super::{COMPLETE, Completion, sealed::Call};

impl<C: GenericClient + Sync> Call for &C {
    type Error = Error;

    async fn call(self, completion: Completion<'_>) -> Result<(), Error> {
        let Completion { record, fence, status, headers, body } = completion;
        let arguments: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 5] = [
            (&record, Type::TEXT),
            (&fence, Type::INT8),
            (&status, Type::INT4),
            (&headers, Type::TEXT),
            (&body, Type::BYTEA),
        ];
        self.execute_typed(COMPLETE, &arguments).await.map(drop)
    }

    fn code(error: &Error) -> Option<Cow<'_, str>> {
        error.code().map(|code| code.code().into())
    }
}
