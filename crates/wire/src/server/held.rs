//! What a session keeps of prepared statements and portals beside what the engine keeps of them.

use std::sync::Arc;

use super::message::format_of;
use crate::error::{Refusal, code};
use crate::values::{Format, Type};
use crate::{backend, build};

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub of: Type,
    /// What the type is limited to, as PostgreSQL encodes it; -1: nothing.
    pub modifier: i32,
}

impl Column {
    /// A column of a type that is not limited.
    pub fn new(name: impl Into<String>, of: Type) -> Self {
        Self {
            name: name.into(),
            of,
            modifier: -1,
        }
    }

    fn bytes(&self) -> usize {
        self.name.len() + size_of::<Self>()
    }
}

/// The formats that a client wants the columns of a portal in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResultFormats(Box<[u8]>);

impl ResultFormats {
    /// As they stand in a Bind for a result with so many columns.
    pub(super) fn new(formats: &[u8], columns: usize) -> Result<Self, Refusal> {
        let count = formats.len() / 2;
        if count > 1 && count != columns {
            let what = format!("bind message has {count} result formats but query has {columns} columns");
            return Err(Refusal::new(code::PROTOCOL_VIOLATION, what));
        }
        Ok(Self(formats.into()))
    }

    /// The format of the column with this number, from 0.
    pub fn of(&self, column: u16) -> Format {
        format_of(&self.0, column)
    }
}

/// A prepared statement.
pub(super) struct Statement<S> {
    pub of_engine: S,
    pub parameters: Arc<[Type]>,
    /// `None`: it returns no rows.
    pub columns: Option<Arc<[Column]>>,
    pub bytes: usize,
}

impl<S> Statement<S> {
    pub fn new(of_engine: S, parameters: Vec<Type>, columns: Option<Vec<Column>>, text_bytes: usize) -> Self {
        let of_columns: usize = columns.iter().flatten().map(Column::bytes).sum();
        let bytes = text_bytes + parameters.len() * size_of::<Type>() + of_columns;
        Self {
            of_engine,
            parameters: parameters.into(),
            columns: columns.map(Arc::from),
            bytes,
        }
    }

    /// Answers a Describe.
    pub fn describe(&self, out: &mut Vec<u8>) {
        let types: Vec<u32> = self.parameters.iter().map(|of| of.oid()).collect();
        build::parameter_description(out, &types);
        describe_columns(out, self.columns.as_deref(), &ResultFormats::default());
    }
}

/// A portal.
pub(super) struct Portal<P> {
    /// `None` while the engine runs it.
    pub of_engine: Option<P>,
    pub columns: Option<Arc<[Column]>>,
    pub formats: ResultFormats,
    pub bytes: usize,
}

impl<P> Portal<P> {
    /// Answers a Describe.
    pub fn describe(&self, out: &mut Vec<u8>) {
        describe_columns(out, self.columns.as_deref(), &self.formats);
    }
}

fn describe_columns(out: &mut Vec<u8>, columns: Option<&[Column]>, formats: &ResultFormats) {
    match columns {
        None => build::bare(out, backend::NO_DATA),
        Some(columns) => build::row_description_of(out, columns, formats),
    }
}
