//! The statements of one connection, each compiled once.
//!
//! Half of what a short statement costs is finding it and its parameters: rusqlite's cache hashes the
//! text and every name for each use. Here a statement is found by the address of its text and a parameter
//! by the address of its name, which are constants of the program; the names themselves are compared only
//! when the address is a new one.

use std::{
    cell::{OnceCell, RefCell},
    ptr,
};

use rusqlite::{Connection, Error, PrepFlags, Row, Statement, ToSql};

// === types ===

/// What [`named_params!`](rusqlite::named_params) makes of constant names.
pub(super) type Parameters<'a> = &'a [(&'static str, &'a dyn ToSql)];

/// The statements that a connection has compiled so far.
pub(super) struct Statements<'a> {
    connection: &'a Connection,
    first: Place<'a>,
}

/// A list that only grows, so that what stands in it can be borrowed.
type Place<'a> = OnceCell<Box<Compiled<'a>>>;

struct Compiled<'a> {
    sql: &'static str,
    statement: RefCell<Bindable<'a>>,
    next: Place<'a>,
}

struct Bindable<'a> {
    statement: Statement<'a>,
    /// How many it has.
    parameters: usize,
    /// The names that were bound last, in the caller's order, and where SQLite has them.
    positions: Vec<(&'static str, usize)>,
}

// === impl Statements ===

impl<'a> Statements<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection, first: OnceCell::new() }
    }

    /// Executes a statement; returns how many rows it changed.
    pub(super) fn execute(&self, sql: &'static str, parameters: Parameters<'_>) -> Result<usize, Error> {
        let mut bindable = self.compiled(sql)?.borrow_mut();
        bindable.bind(parameters)?;
        bindable.statement.raw_execute()
    }

    /// Hands the rows of a query over one by one, until one of them is enough.
    pub(super) fn query<E: From<Error>>(
        &self,
        sql: &'static str,
        parameters: Parameters<'_>,
        mut is_enough: impl FnMut(&Row<'_>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut bindable = self.compiled(sql)?.borrow_mut();
        bindable.bind(parameters)?;
        let mut rows = bindable.statement.raw_query();
        while let Some(row) = rows.next()? {
            if is_enough(row)? {
                break;
            }
        }
        Ok(())
    }

    fn compiled(&self, sql: &'static str) -> Result<&RefCell<Bindable<'a>>, Error> {
        let mut place = &self.first;
        while let Some(compiled) = place.get() {
            if ptr::eq(compiled.sql, sql) {
                return Ok(&compiled.statement);
            }
            place = &compiled.next;
        }
        // Said to be kept, it leaves the connection's pool of small allocations to what statements need each
        // time they run; without that pool every cursor is a `malloc`.
        let statement = self.connection.prepare_with_flags(sql, PrepFlags::SQLITE_PREPARE_PERSISTENT)?;
        let statement = RefCell::new(Bindable::new(statement));
        let compiled = Compiled { sql, statement, next: OnceCell::new() };
        Ok(&place.get_or_init(|| Box::new(compiled)).statement)
    }
}

// === impl Bindable ===

impl<'a> Bindable<'a> {
    fn new(statement: Statement<'a>) -> Self {
        Self { parameters: statement.parameter_count(), statement, positions: Vec::new() }
    }

    /// Binds every parameter: what is left out would keep the value of the call before.
    fn bind(&mut self, parameters: Parameters<'_>) -> Result<(), Error> {
        if parameters.len() != self.parameters {
            return Err(Error::InvalidParameterCount(parameters.len(), self.parameters));
        }
        for (number, &(name, value)) in parameters.iter().enumerate() {
            let position = match self.positions.get(number) {
                Some(&(known, position)) if ptr::eq(known, name) => position,
                Some(_) | None => self.learn(number, name)?,
            };
            self.statement.raw_bind_parameter(position, value)?;
        }
        Ok(())
    }

    fn learn(&mut self, number: usize, name: &'static str) -> Result<usize, Error> {
        let position = self.statement.parameter_index(name)?;
        let position = position.ok_or_else(|| Error::InvalidParameterName(name.to_owned()))?;
        self.positions.truncate(number);
        self.positions.push((name, position));
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::named_params;

    use super::*;

    const NUMBERS: &str = "SELECT :first - :second";

    fn difference(statements: &Statements<'_>, parameters: Parameters<'_>) -> Result<i64, Error> {
        let mut found = None;
        statements.query(NUMBERS, parameters, |row| {
            found = Some(row.get(0)?);
            Ok::<_, Error>(true)
        })?;
        Ok(found.expect("one row is selected"))
    }

    #[test]
    fn parameters_are_bound_by_name_in_whatever_order_they_are_given() {
        let connection = Connection::open_in_memory().unwrap();
        let statements = Statements::new(&connection);
        for _ in 0..2 {
            assert_eq!(difference(&statements, named_params! {":first": 5, ":second": 3}).unwrap(), 2);
            assert_eq!(difference(&statements, named_params! {":second": 5, ":first": 3}).unwrap(), -2);
        }
    }

    #[test]
    fn a_parameter_that_is_left_out_or_not_known_is_refused() {
        let connection = Connection::open_in_memory().unwrap();
        let statements = Statements::new(&connection);
        difference(&statements, named_params! {":first": 5, ":second": 3}).unwrap();
        for parameters in [
            named_params! {":first": 5},
            named_params! {":first": 5, ":third": 3},
            named_params! {":first": 5, ":second": 3, ":third": 1},
        ] {
            difference(&statements, parameters).unwrap_err();
        }
    }
}
