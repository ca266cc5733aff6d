//! [`Type`]: the types that values have here, by the numbers PostgreSQL gives them.

/// How a value is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// As text.
    #[default]
    Text,
    /// As PostgreSQL's `send` functions do.
    Binary,
}

impl Format {
    /// The code in messages.
    pub fn code(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }
}

/// What a value, or an element of an array, is.
#[expect(missing_docs, reason = "the names are PostgreSQL's")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Bool,
    Bytea,
    Name,
    Int8,
    Int2,
    Int4,
    Text,
    Oid,
    Json,
    Float4,
    Float8,
    /// A literal whose type nobody knows.
    Unknown,
    Bpchar,
    Varchar,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Numeric,
    Uuid,
    Void,
    Jsonb,
    Inet,
}

/// Kind, its name in SQL, its number, that of arrays of it (0: there are none), bytes (-1: it varies).
const KINDS: &[(Kind, &str, u32, u32, i16)] = &[
    (Kind::Bool, "boolean", 16, 1000, 1),
    (Kind::Bytea, "bytea", 17, 1001, -1),
    (Kind::Name, "name", 19, 1003, 64),
    (Kind::Int8, "bigint", 20, 1016, 8),
    (Kind::Int2, "smallint", 21, 1005, 2),
    (Kind::Int4, "integer", 23, 1007, 4),
    (Kind::Text, "text", 25, 1009, -1),
    (Kind::Oid, "oid", 26, 1028, 4),
    (Kind::Json, "json", 114, 199, -1),
    (Kind::Float4, "real", 700, 1021, 4),
    (Kind::Float8, "double precision", 701, 1022, 8),
    (Kind::Inet, "inet", 869, 1041, -1),
    (Kind::Unknown, "unknown", 705, 0, -2),
    (Kind::Bpchar, "character", 1042, 1014, -1),
    (Kind::Varchar, "character varying", 1043, 1015, -1),
    (Kind::Date, "date", 1082, 1182, 4),
    (Kind::Time, "time", 1083, 1183, 8),
    (Kind::Timestamp, "timestamp", 1114, 1115, 8),
    (Kind::Timestamptz, "timestamp with time zone", 1184, 1185, 8),
    (Kind::Interval, "interval", 1186, 1187, 16),
    (Kind::Numeric, "numeric", 1700, 1231, -1),
    (Kind::Void, "void", 2278, 0, 4),
    (Kind::Uuid, "uuid", 2950, 2951, 16),
    (Kind::Jsonb, "jsonb", 3802, 3807, -1),
];

impl Kind {
    fn row(self) -> &'static (Kind, &'static str, u32, u32, i16) {
        let found = KINDS.iter().find(|(kind, ..)| *kind == self);
        found.unwrap_or(&KINDS[0])
    }

    /// Its name in SQL and in errors.
    pub fn name(self) -> &'static str {
        self.row().1
    }
}

/// A type: of one value, or of arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Type {
    /// What its values, or their elements, are.
    pub kind: Kind,
    /// Whether its values are arrays.
    pub array: bool,
}

impl Type {
    /// `boolean`.
    pub const BOOL: Self = Self::single(Kind::Bool);
    /// `smallint`.
    pub const INT2: Self = Self::single(Kind::Int2);
    /// `integer`.
    pub const INT4: Self = Self::single(Kind::Int4);
    /// `bigint`.
    pub const INT8: Self = Self::single(Kind::Int8);
    /// `text`.
    pub const TEXT: Self = Self::single(Kind::Text);

    /// The type of single values.
    pub const fn single(kind: Kind) -> Self {
        Self { kind, array: false }
    }

    /// The type of arrays; `None` where there are none.
    pub fn array_of(kind: Kind) -> Option<Self> {
        (kind.row().3 != 0).then_some(Self { kind, array: true })
    }

    /// The type with this number; `None`: it is not one of those here.
    pub fn of(oid: u32) -> Option<Self> {
        let single = KINDS.iter().find(|row| row.2 == oid);
        let array = || KINDS.iter().find(|row| row.3 == oid && oid != 0);
        let single = single.map(|row| Self::single(row.0));
        single.or_else(|| {
            array().map(|row| Self {
                kind: row.0,
                array: true,
            })
        })
    }

    /// Its number.
    pub fn oid(self) -> u32 {
        let row = self.kind.row();
        if self.array { row.3 } else { row.2 }
    }

    /// Bytes of a value, as RowDescription says it; -1: they vary.
    pub fn size(self) -> i16 {
        if self.array { -1 } else { self.kind.row().4 }
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind.name())?;
        f.write_str(if self.array { "[]" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_to_types() {
        for (kind, name, oid, array, _) in KINDS {
            assert_eq!(Type::of(*oid), Some(Type::single(*kind)));
            assert_eq!(kind.name(), *name);
            if let Some(of) = Type::array_of(*kind) {
                assert_eq!((Type::of(*array), of.oid(), of.size()), (Some(of), *array, -1));
                assert_eq!(of.to_string(), format!("{name}[]"));
            }
        }
        assert_eq!(Type::of(0), None);
        assert_eq!(Type::array_of(Kind::Void), None);
    }
}
