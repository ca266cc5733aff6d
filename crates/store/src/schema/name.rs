//! [`QualifiedName`]: the name of a table or a sequence, with that of its schema.

use std::fmt;

/// The schema of what names no other. It is always there.
pub const PUBLIC: &str = "public";

/// The name of a table or a sequence in its schema.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct QualifiedName {
    pub(crate) schema: String,
    pub(crate) name: String,
}

impl QualifiedName {
    pub(crate) fn new(schema: &str, name: &str) -> Self {
        QualifiedName {
            schema: schema.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl fmt::Display for QualifiedName {
    /// Without the schema `public`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.schema {
            PUBLIC => f.write_str(&self.name),
            schema => write!(f, "{schema}.{}", self.name),
        }
    }
}
