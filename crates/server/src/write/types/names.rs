//! Names of types: SQL's as the parser reads them, PostgreSQL's own, and what there is not.

use super::{characters, digits_of_second, numeric};
use crate::catalog::folded;
use crate::write::column::Declared;
use corun_wire::error::{Refusal, code};
use corun_wire::values::{self, Kind};
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType as D, ExactNumberInfo, ObjectName, TimezoneInfo,
};

/// What `format_type` calls a kind, and what follows its limits; PostgreSQL's own name.
const NAMES: &[(Kind, &str, &str, &str)] = &[
    (Kind::Bool, "boolean", "", "bool"),
    (Kind::Int2, "smallint", "", "int2"),
    (Kind::Int4, "integer", "", "int4"),
    (Kind::Int8, "bigint", "", "int8"),
    (Kind::Float4, "real", "", "float4"),
    (Kind::Float8, "double precision", "", "float8"),
    (Kind::Numeric, "numeric", "", "numeric"),
    (Kind::Text, "text", "", "text"),
    (Kind::Varchar, "character varying", "", "varchar"),
    (Kind::Bpchar, "character", "", "bpchar"),
    (Kind::Name, "name", "", "name"),
    (Kind::Bytea, "bytea", "", "bytea"),
    (Kind::Date, "date", "", "date"),
    (Kind::Time, "time", " without time zone", "time"),
    (Kind::Timestamp, "timestamp", " without time zone", "timestamp"),
    (Kind::Timestamptz, "timestamp", " with time zone", "timestamptz"),
    (Kind::Interval, "interval", "", "interval"),
    (Kind::Uuid, "uuid", "", "uuid"),
    (Kind::Json, "json", "", "json"),
    (Kind::Jsonb, "jsonb", "", "jsonb"),
    (Kind::Inet, "inet", "", "inet"),
    (Kind::Oid, "oid", "", "oid"),
];

/// Types that PostgreSQL has and tables here have not, and what to use.
const UNSUPPORTED: &[(&[&str], &str)] = &[
    (&["money"], "Use numeric(19, 2)."),
    (&["cidr", "macaddr", "macaddr8"], "Use text."),
    (
        &["bit", "varbit", "bit varying"],
        "Use bytea, or text of 0 and 1.",
    ),
    (&["xml", "jsonpath", "tsvector", "tsquery", "pg_lsn"], "Use text."),
    (
        &["timetz", "time with time zone"],
        "Use time, or timestamp with time zone.",
    ),
    (
        &["point", "line", "lseg", "box", "path", "polygon", "circle"],
        "Use columns of type double precision.",
    ),
    (
        &[
            "int4range",
            "int8range",
            "numrange",
            "tsrange",
            "tstzrange",
            "daterange",
            "int4multirange",
            "int8multirange",
            "nummultirange",
            "tsmultirange",
            "tstzmultirange",
            "datemultirange",
        ],
        "Use a column for each end.",
    ),
    (
        &[
            "regclass",
            "regcollation",
            "regconfig",
            "regdictionary",
            "regnamespace",
            "regoper",
            "regoperator",
            "regproc",
            "regprocedure",
            "regrole",
            "regtype",
        ],
        "Use text for the name, or oid for the number.",
    ),
    (
        &["xid", "xid8", "cid", "tid", "pg_snapshot", "txid_snapshot"],
        "Use bigint or text.",
    ),
    (&["char", "refcursor"], "Use text, or character(1)."),
    (&["bpchar"], "Use text, or character(n) with a length."),
    (&["interval with fields"], "Use interval."),
];

/// What `format_type` writes before the limits of a type, and behind them.
pub(super) fn shown(kind: Kind, limited: bool) -> (&'static str, &'static str) {
    match NAMES.iter().find(|known| known.0 == kind) {
        // Without a length `character` would be one of length 1.
        Some((Kind::Bpchar, .., own)) if !limited => (own, ""),
        Some((_, before, behind, _)) => (before, behind),
        None => (kind.name(), ""),
    }
}

fn unsupported(name: &str) -> Option<Refusal> {
    let (_, hint) = UNSUPPORTED.iter().find(|(names, _)| names.contains(&name))?;
    let what = format!("columns of type {} are not supported", quoted_char(name));
    Some(Refusal::new(code::NOT_SUPPORTED, what).hint(*hint))
}

/// The one-byte type is called `"char"`, with quotes.
fn quoted_char(name: &str) -> &str {
    match name {
        "char" => "\"char\"",
        name => name,
    }
}

fn no_such(name: &str) -> Refusal {
    let refusal = Refusal::new(code::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"));
    let hint = match name {
        "citext" => "Use text, and compare lower(...) of it.",
        "hstore" => "Use jsonb.",
        "blob" | "binary" | "varbinary" => "Use bytea.",
        "datetime" => "Use timestamp.",
        "double" => "Use double precision.",
        "tinyint" => "Use smallint.",
        "string" | "nvarchar" | "clob" | "tinytext" | "mediumtext" | "longtext" => "Use text.",
        _ => return refusal,
    };
    refusal.hint(hint)
}

fn found_unsupported(name: &str) -> Refusal {
    unsupported(name).unwrap_or_else(|| no_such(name))
}

/// A type of a statement.
pub(super) fn of_sql(of: &D) -> Result<Declared, Refusal> {
    let plain = |kind| Ok(Declared::plain(kind));
    match of {
        D::Bool | D::Boolean => plain(Kind::Bool),
        D::SmallInt(None) | D::Int2(None) => plain(Kind::Int2),
        D::Int(None) | D::Integer(None) | D::Int4(None) => plain(Kind::Int4),
        D::BigInt(None) | D::Int8(None) => plain(Kind::Int8),
        D::Real | D::Float4 => plain(Kind::Float4),
        D::DoublePrecision | D::Float8 => plain(Kind::Float8),
        D::Float(info) => float(info),
        D::Numeric(info) | D::Decimal(info) | D::Dec(info) => numeric(match *info {
            ExactNumberInfo::None => None,
            ExactNumberInfo::Precision(precision) => Some((precision, 0)),
            ExactNumberInfo::PrecisionAndScale(precision, scale) => Some((precision, scale)),
        }),
        D::Text => plain(Kind::Text),
        D::Varchar(length) | D::CharacterVarying(length) | D::CharVarying(length) => match length {
            None => plain(Kind::Varchar),
            Some(length) => of_length(Kind::Varchar, length),
        },
        D::Char(length) | D::Character(length) => match length {
            None => characters(Kind::Bpchar, 1),
            Some(length) => of_length(Kind::Bpchar, length),
        },
        D::Bytea => plain(Kind::Bytea),
        D::Date => plain(Kind::Date),
        D::Uuid => plain(Kind::Uuid),
        D::JSON => plain(Kind::Json),
        D::JSONB => plain(Kind::Jsonb),
        D::Time(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            Ok(digits_of_second(Kind::Time, *digits))
        }
        D::Time(..) => Err(found_unsupported("time with time zone")),
        D::Timestamp(digits, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            Ok(digits_of_second(Kind::Timestamp, *digits))
        }
        D::Timestamp(digits, _) => Ok(digits_of_second(Kind::Timestamptz, *digits)),
        D::Interval {
            fields: None,
            precision,
        } => Ok(digits_of_second(Kind::Interval, *precision)),
        D::Interval { .. } => Err(found_unsupported("interval with fields")),
        D::Array(ArrayElemTypeDef::SquareBracket(element, _) | ArrayElemTypeDef::AngleBracket(element)) => {
            array(of_sql(element)?)
        }
        D::Custom(name, limits) => named(name, limits),
        D::Bit(_) => Err(found_unsupported("bit")),
        D::BitVarying(_) | D::VarBit(_) => Err(found_unsupported("bit varying")),
        D::Regclass => Err(found_unsupported("regclass")),
        D::TsVector => Err(found_unsupported("tsvector")),
        D::TsQuery => Err(found_unsupported("tsquery")),
        other => {
            let name = other.to_string().to_lowercase();
            let name = name.split('(').next().unwrap_or_default().trim();
            Err(found_unsupported(name))
        }
    }
}

/// Arrays of arrays are arrays of the same type.
fn array(element: Declared) -> Result<Declared, Refusal> {
    let of = values::Type::array_of(element.of.kind).ok_or_else(|| no_such(&format!("{element}[]")))?;
    Ok(Declared { of, ..element })
}

fn float(info: &ExactNumberInfo) -> Result<Declared, Refusal> {
    let wrong = |what: &str| Refusal::new(code::INVALID_PARAMETER_VALUE, what);
    match info {
        ExactNumberInfo::None => Ok(Declared::plain(Kind::Float8)),
        ExactNumberInfo::Precision(0) => Err(wrong("precision for type float must be at least 1 bit")),
        ExactNumberInfo::Precision(1..=24) => Ok(Declared::plain(Kind::Float4)),
        ExactNumberInfo::Precision(25..=53) => Ok(Declared::plain(Kind::Float8)),
        ExactNumberInfo::Precision(_) => Err(wrong("precision for type float must be less than 54 bits")),
        ExactNumberInfo::PrecisionAndScale(..) => {
            Err(Refusal::new(code::SYNTAX_ERROR, "type float takes one number"))
        }
    }
}

fn of_length(kind: Kind, length: &CharacterLength) -> Result<Declared, Refusal> {
    match length {
        CharacterLength::IntegerLength { length, .. } => characters(kind, *length),
        CharacterLength::Max => Err(Refusal::new(
            code::SYNTAX_ERROR,
            "a length must be a number of characters",
        )),
    }
}

/// A type by its name and what stands in brackets behind it.
fn named(name: &ObjectName, limits: &[String]) -> Result<Declared, Refusal> {
    let parts: Option<Vec<String>> = name.0.iter().map(|part| part.as_ident().map(folded)).collect();
    let shown = || name.to_string().to_lowercase();
    let own = match parts.as_deref() {
        Some([own]) => own,
        Some([schema, own]) if schema == "pg_catalog" => own,
        _ => return Err(no_such(&shown())),
    };
    let (own, is_array) = match own.strip_prefix('_') {
        Some(element) => (element, true),
        None => (own.as_str(), false),
    };
    let element = by_own_name(own, limits)?;
    match is_array {
        true => array(element),
        false => Ok(element),
    }
}

fn by_own_name(name: &str, limits: &[String]) -> Result<Declared, Refusal> {
    let Some(kind) = NAMES.iter().find(|known| known.3 == name).map(|known| known.0) else {
        return Err(found_unsupported(name));
    };
    limited(kind, limits).unwrap_or_else(|| match kind {
        Kind::Bpchar => Err(found_unsupported("bpchar")),
        _ => Err(Refusal::new(
            code::INVALID_PARAMETER_VALUE,
            format!("type modifier is not allowed for type \"{name}\""),
        )),
    })
}

/// A kind with what stands in brackets behind its name; `None`: it takes nothing of that.
fn limited(kind: Kind, limits: &[impl AsRef<str>]) -> Option<Result<Declared, Refusal>> {
    let number = |at: usize| {
        limits
            .get(at)
            .and_then(|limit| limit.as_ref().trim().parse::<i64>().ok())
    };
    let positive = |at: usize| number(at).and_then(|number| u64::try_from(number).ok());
    Some(match (kind, limits.len()) {
        (Kind::Bpchar, 0) => return None,
        (Kind::Numeric, 1) => numeric(Some((positive(0)?, 0))),
        (Kind::Numeric, 2) => numeric(Some((positive(0)?, number(1)?))),
        (Kind::Varchar | Kind::Bpchar, 1) => characters(kind, positive(0)?),
        (Kind::Time | Kind::Timestamp | Kind::Timestamptz | Kind::Interval, 1) => {
            Ok(digits_of_second(kind, Some(positive(0)?)))
        }
        (kind, 0) => Ok(Declared::plain(kind)),
        _ => return None,
    })
}

/// A type as `Display` writes it; `None`: it is no type.
pub(super) fn of_text(text: &str) -> Option<Declared> {
    let text = text.trim();
    if let Some(element) = text.strip_suffix("[]") {
        return array(of_text(element)?).ok();
    }
    let (before, inner, behind) = match text.split_once('(') {
        None => (text, "", ""),
        Some((before, rest)) => {
            let (inner, behind) = rest.split_once(')')?;
            (before, inner, behind)
        }
    };
    let limits: Vec<&str> = inner.split(',').filter(|limit| !limit.is_empty()).collect();
    let name = format!("{before}{behind}").to_ascii_lowercase();
    let known = NAMES.iter().find(|(_, before, behind, own)| {
        let whole = name.strip_prefix(before).is_some_and(|rest| rest == *behind);
        whole || name == *own
    })?;
    match (known.0, limits.as_slice()) {
        // Without a length: what `bpchar` is.
        (Kind::Bpchar, []) if name == "bpchar" => Some(Declared::plain(Kind::Bpchar)),
        (Kind::Bpchar, []) => characters(Kind::Bpchar, 1).ok(),
        (kind, limits) => limited(kind, limits)?.ok(),
    }
}
