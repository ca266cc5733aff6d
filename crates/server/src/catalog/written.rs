//! Defaults and conditions as PostgreSQL writes them: with the casts that it sees, and with parentheses around every operator, or, as psql wants
//! it (`pretty`), where they are needed.
//!
//! ```text
//!   price > 0 AND state IN ('new', 'paid')
//!   ((price > (0)::numeric) AND (state = ANY (ARRAY['new'::text, 'paid'::text])))      full
//!   price > 0::numeric AND (state = ANY (ARRAY['new'::text, 'paid'::text]))            pretty
//! ```
//!
//! What is not known here stays as it was written. What it is not: the evaluation of either.

use super::quoting::{named, quoted};
use super::scopes::folded;
use super::types;
use crate::write::sequences::name_parts;
use crate::write::{ColumnDefault, TableInfo, value_of};
use corun_store::Constant;
use corun_wire::values::{FixedOffset, Format, Kind, Type};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    UnaryOperator, Value, Visit, Visitor,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use std::ops::ControlFlow;

/// Levels of an expression that are written; deeper ones stay as they are.
const DEPTH_MAX: usize = 64;

/// The default of a column; none of an identity column, as in PostgreSQL.
pub(super) fn default(info: &TableInfo, at: usize, path: &[String]) -> Option<String> {
    let column = info.columns.get(at)?;
    match &column.default {
        _ if column.identity.is_some() => None,
        ColumnDefault::None => None,
        ColumnDefault::Constant(constant) => constant_text(info, at, constant),
        ColumnDefault::Expression(text) => {
            let writer = Writer {
                info: None,
                path,
                pretty: true,
            };
            Some(writer.all(text).unwrap_or_else(|| text.clone()))
        }
    }
}

/// A condition of a table.
pub(super) struct Condition {
    pub(super) full: String,
    pub(super) pretty: String,
    /// Numbers of its columns, from 1.
    pub(super) columns: Vec<i32>,
}

/// A condition that is kept as text.
pub(super) fn condition(text: &str, info: &TableInfo, path: &[String]) -> Condition {
    let written = |pretty| {
        let writer = Writer {
            info: Some(info),
            path,
            pretty,
        };
        writer.all(text).unwrap_or_else(|| text.to_owned())
    };
    let mut columns = ColumnsOf {
        info,
        found: Vec::new(),
    };
    if let Some(expr) = parsed(text) {
        _ = expr.visit(&mut columns);
    }
    columns.found.sort_unstable();
    columns.found.dedup();
    Condition {
        full: written(false),
        pretty: written(true),
        columns: columns.found,
    }
}

fn parsed(text: &str) -> Option<Expr> {
    let parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text);
    parser.ok()?.parse_expr().ok()
}

struct ColumnsOf<'i> {
    info: &'i TableInfo,
    found: Vec<i32>,
}

impl Visitor for ColumnsOf<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, of: &Expr) -> ControlFlow<()> {
        let name = match of {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(names) => names.last(),
            _ => None,
        };
        let at = name.and_then(|name| self.info.column(&folded(name)));
        self.found.extend(at.map(|at| at as i32 + 1));
        ControlFlow::Continue(())
    }
}

/// A text as a literal.
fn literal(text: &str) -> String {
    let escape = if text.contains('\\') { "E" } else { "" };
    format!("{escape}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// What a type is called in a cast.
fn cast_name(of: Type) -> String {
    let name = match of.kind {
        Kind::Bpchar => "bpchar",
        Kind::Name => "name",
        _ => types::name(Type::single(of.kind).oid().cast_signed()),
    };
    let array = if of.array { "[]" } else { "" };
    format!("{name}{array}")
}

fn constant_text(info: &TableInfo, at: usize, constant: &Constant) -> Option<String> {
    let mut row = info.table.new_row();
    let column = &info.columns[at];
    row.set(at, constant.value()).ok()?;
    let mut bytes = Vec::new();
    value_of(column, at, row.row())?.write(&mut bytes, Format::Text, &FixedOffset::UTC);
    let text = String::from_utf8(bytes).ok()?;
    let of = column.declared.of;
    let plain = !of.array && !text.starts_with('-');
    Some(match of.kind {
        Kind::Bool if !of.array => if text == "t" { "true" } else { "false" }.to_owned(),
        Kind::Int2 | Kind::Int4 | Kind::Int8 if plain => text,
        Kind::Int2 | Kind::Int4 | Kind::Int8 if !of.array => {
            let small = text.parse::<i32>().is_ok();
            format!("'{text}'::{}", if small { "integer" } else { "bigint" })
        }
        Kind::Numeric if plain => {
            // Zeros behind the point are the column's, as likely as not.
            let whole = text
                .split_once('.')
                .filter(|(_, rest)| rest.bytes().all(|byte| byte == b'0'));
            whole.map_or(text.clone(), |(whole, _)| whole.to_owned())
        }
        Kind::Float4 | Kind::Float8 if plain && text.starts_with(|c: char| c.is_ascii_digit()) => text,
        _ => format!("{}::{}", literal(&text), cast_name(of)),
    })
}

/// What stands around an expression, or what it is itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A column, a literal, a call: never in parentheses.
    Simple,
    /// `+`, `-`
    Low,
    /// `*`, `/`, `%`
    High,
    /// Other operators.
    Operator,
    And,
    Or,
    Not,
    /// `IS NULL`
    Test,
    /// `= ANY`
    Any,
    /// A cast, as what is around.
    Cast,
}

impl Shape {
    fn is_condition(self) -> bool {
        matches!(self, Shape::And | Shape::Or | Shape::Not)
    }

    /// Whether it is in parentheses in another, of which it is the first part or not, where not everything is.
    fn needs_parentheses(self, around: Shape, first: bool) -> bool {
        match self {
            Shape::Simple => false,
            Shape::Any | Shape::Cast => true,
            Shape::Test => !around.is_condition(),
            Shape::And | Shape::Not => !matches!(around, Shape::And | Shape::Or),
            Shape::Or => around != Shape::Or,
            _ if around.is_condition() => false,
            _ if self == Shape::Operator || !matches!(around, Shape::Low | Shape::High) => true,
            _ => match (self, around) {
                (Shape::High, Shape::Low) => false,
                (Shape::Low, Shape::High) => true,
                _ => !first,
            },
        }
    }
}

/// A part of an expression.
#[derive(Debug, Clone)]
struct Written {
    text: String,
    /// `None`: it is not known.
    of: Option<Type>,
    shape: Shape,
    /// Of a literal without a type: its text.
    untyped: Option<String>,
}

impl Written {
    fn simple(text: String, of: Option<Type>) -> Written {
        Written {
            text,
            of,
            shape: Shape::Simple,
            untyped: None,
        }
    }
}

struct Writer<'w> {
    /// Whose columns are named.
    info: Option<&'w TableInfo>,
    path: &'w [String],
    pretty: bool,
}

impl Writer<'_> {
    fn all(&self, text: &str) -> Option<String> {
        let written = self.expr(&parsed(text)?, 0)?;
        Some(match &written.untyped {
            Some(_) => self.cast(written, Type::TEXT).text,
            None => written.text,
        })
    }

    fn expr(&self, expr: &Expr, depth: usize) -> Option<Written> {
        if depth > DEPTH_MAX {
            return None;
        }
        let inner = |expr: &Expr| self.expr(expr, depth + 1);
        match expr {
            Expr::Nested(expr) => inner(expr),
            Expr::Identifier(name) => self.column(name),
            Expr::CompoundIdentifier(names) => self.column(names.last()?),
            Expr::Value(value) => self.value(&value.value),
            Expr::UnaryOp { op, expr } => match (op, expr.as_ref()) {
                (UnaryOperator::Minus, Expr::Value(value)) => {
                    let of = self.value(&value.value)?;
                    let kind = of.of?;
                    Some(Written::simple(
                        format!("'-{}'::{}", of.text, cast_name(kind)),
                        of.of,
                    ))
                }
                (UnaryOperator::Not, expr) => {
                    let of = self.within(inner(expr)?, Shape::Not, true);
                    Some(self.made(format!("NOT {of}"), Some(Type::BOOL), Shape::Not))
                }
                _ => None,
            },
            Expr::BinaryOp { left, op, right } => match op {
                BinaryOperator::And | BinaryOperator::Or => {
                    let mut parts = Vec::new();
                    flatten(expr, op, &mut parts);
                    let parts: Option<Vec<Written>> = parts.into_iter().map(inner).collect();
                    Some(self.condition(parts?, *op == BinaryOperator::And))
                }
                _ => self.operator(inner(left)?, op, inner(right)?),
            },
            Expr::IsNull(of) | Expr::IsNotNull(of) => {
                let not = if matches!(expr, Expr::IsNotNull(_)) {
                    "NOT "
                } else {
                    ""
                };
                let of = self.within(inner(of)?, Shape::Test, true);
                Some(self.made(format!("{of} IS {not}NULL"), Some(Type::BOOL), Shape::Test))
            }
            Expr::Between {
                expr,
                negated,
                low,
                high,
            } => {
                let (above, below) = match negated {
                    false => (BinaryOperator::GtEq, BinaryOperator::LtEq),
                    true => (BinaryOperator::Lt, BinaryOperator::Gt),
                };
                let of = inner(expr)?;
                let parts = vec![
                    self.operator(of.clone(), &above, inner(low)?)?,
                    self.operator(of, &below, inner(high)?)?,
                ];
                Some(self.condition(parts, !negated))
            }
            Expr::InList { expr, list, negated } => {
                let list: Option<Vec<Written>> = list.iter().map(inner).collect();
                self.any(inner(expr)?, list?, *negated)
            }
            Expr::Like {
                negated,
                any: false,
                expr,
                pattern,
                escape_char: None,
            } => self.matches(inner(expr)?, if *negated { "!~~" } else { "~~" }, inner(pattern)?),
            Expr::ILike {
                negated,
                any: false,
                expr,
                pattern,
                escape_char: None,
            } => self.matches(
                inner(expr)?,
                if *negated { "!~~*" } else { "~~*" },
                inner(pattern)?,
            ),
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                ..
            } => {
                let (declared, _) = crate::write::store_type(data_type).ok()?;
                let of = inner(expr)?;
                let mut made = match &of.untyped {
                    // A length counts only for what is not a literal.
                    Some(_) => self.cast(of, declared.of),
                    None => {
                        let of = self.within(of, Shape::Cast, true);
                        let of = if self.pretty { of } else { format!("({of})") };
                        Written::simple(format!("{of}::{declared}"), None)
                    }
                };
                made.of = Some(declared.of);
                Some(made)
            }
            Expr::Function(function) => self.call(function, depth),
            _ => None,
        }
    }

    /// An operator's text: in parentheses where all are.
    fn made(&self, text: String, of: Option<Type>, shape: Shape) -> Written {
        Written {
            text: if self.pretty { text } else { format!("({text})") },
            of,
            shape,
            untyped: None,
        }
    }

    /// A part within another.
    fn within(&self, of: Written, around: Shape, first: bool) -> String {
        match self.pretty && of.shape.needs_parentheses(around, first) {
            true => format!("({})", of.text),
            false => of.text,
        }
    }

    fn column(&self, name: &Ident) -> Option<Written> {
        let name = folded(name);
        let info = self.info?;
        let column = &info.columns[info.column(&name)?];
        Some(Written::simple(quoted(&name), Some(column.declared.of)))
    }

    fn value(&self, value: &Value) -> Option<Written> {
        let simple = |text: String, of| Some(Written::simple(text, Some(of)));
        match value {
            Value::Number(text, _) => {
                let text = text.to_string();
                let of = match (text.parse::<i32>(), text.parse::<i64>()) {
                    (Ok(_), _) => Type::INT4,
                    (_, Ok(_)) => Type::INT8,
                    _ => Type::single(Kind::Numeric),
                };
                match of.kind {
                    Kind::Int8 => simple(format!("'{text}'::bigint"), of),
                    _ => simple(text, of),
                }
            }
            Value::Boolean(value) => simple(value.to_string(), Type::BOOL),
            Value::Null => Some(Written::simple("NULL".to_owned(), None)),
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(Written {
                text: literal(text),
                of: None,
                shape: Shape::Simple,
                untyped: Some(text.clone()),
            }),
            _ => None,
        }
    }

    /// A part with a cast, if it needs one.
    fn cast(&self, of: Written, to: Type) -> Written {
        if let Some(text) = &of.untyped {
            let is_true = matches!(text.as_str(), "t" | "true");
            return match to.kind {
                Kind::Bool if !to.array => Written::simple(is_true.to_string(), Some(to)),
                Kind::Int2 | Kind::Int4 | Kind::Numeric
                    if !to.array && text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() =>
                {
                    Written::simple(text.clone(), Some(to))
                }
                _ => Written::simple(format!("{}::{}", literal(text), cast_name(to)), Some(to)),
            };
        }
        if of.of.is_none() || of.of == Some(to) {
            return of;
        }
        let text = self.within(of, Shape::Cast, true);
        let text = if self.pretty { text } else { format!("({text})") };
        Written::simple(format!("{text}::{}", cast_name(to)), Some(to))
    }

    fn condition(&self, parts: Vec<Written>, and: bool) -> Written {
        let (word, shape) = if and {
            (" AND ", Shape::And)
        } else {
            (" OR ", Shape::Or)
        };
        let parts: Vec<String> = parts
            .into_iter()
            .map(|part| self.within(part, shape, true))
            .collect();
        self.made(parts.join(word), Some(Type::BOOL), shape)
    }

    fn operator(&self, left: Written, op: &BinaryOperator, right: Written) -> Option<Written> {
        use BinaryOperator as Op;
        let (text, shape) = match op {
            Op::Eq => ("=", Shape::Operator),
            Op::NotEq => ("<>", Shape::Operator),
            Op::Lt => ("<", Shape::Operator),
            Op::LtEq => ("<=", Shape::Operator),
            Op::Gt => (">", Shape::Operator),
            Op::GtEq => (">=", Shape::Operator),
            Op::StringConcat => ("||", Shape::Operator),
            Op::PGRegexMatch => ("~", Shape::Operator),
            Op::PGRegexNotMatch => ("!~", Shape::Operator),
            Op::Plus => ("+", Shape::Low),
            Op::Minus => ("-", Shape::Low),
            Op::Multiply => ("*", Shape::High),
            Op::Divide => ("/", Shape::High),
            Op::Modulo => ("%", Shape::High),
            _ => return None,
        };
        let (of_left, of_right) = common(left.of, right.of);
        let (of_left, of_right) = match op {
            Op::StringConcat | Op::PGRegexMatch | Op::PGRegexNotMatch => (Type::TEXT, Type::TEXT),
            _ => (of_left, of_right),
        };
        let of = match op {
            Op::StringConcat => Type::TEXT,
            Op::Plus | Op::Minus | Op::Multiply | Op::Divide | Op::Modulo => wider(of_left, of_right),
            _ => Type::BOOL,
        };
        let left = self.within(self.cast(left, of_left), shape, true);
        let right = self.within(self.cast(right, of_right), shape, false);
        Some(self.made(format!("{left} {text} {right}"), Some(of), shape))
    }

    fn matches(&self, left: Written, operator: &str, right: Written) -> Option<Written> {
        let left = self.within(self.cast(left, Type::TEXT), Shape::Operator, true);
        let right = self.within(self.cast(right, Type::TEXT), Shape::Operator, false);
        Some(self.made(
            format!("{left} {operator} {right}"),
            Some(Type::BOOL),
            Shape::Operator,
        ))
    }

    fn any(&self, of: Written, list: Vec<Written>, negated: bool) -> Option<Written> {
        let kind = of.of?;
        let literals = list.iter().all(|item| item.untyped.is_some());
        let (operator, word) = if negated { ("<>", "ALL") } else { ("=", "ANY") };
        let items = |to: Type| {
            let items: Vec<String> = list.iter().map(|item| self.cast(item.clone(), to).text).collect();
            format!("ARRAY[{}]", items.join(", "))
        };
        let (of, array) = match kind.kind {
            Kind::Varchar if literals => {
                let array = items(kind);
                let array = if self.pretty { array } else { format!("({array})") };
                (self.cast(of, Type::TEXT), format!("{array}::text[]"))
            }
            _ => {
                let (left, right) = list.iter().fold((kind, kind), |of, item| {
                    common(Some(of.0), item.of.or(Some(of.1)))
                });
                (self.cast(of, left), items(right))
            }
        };
        let of = self.within(of, Shape::Operator, true);
        Some(self.made(
            format!("{of} {operator} {word} ({array})"),
            Some(Type::BOOL),
            Shape::Any,
        ))
    }

    fn call(&self, function: &Function, depth: usize) -> Option<Written> {
        if function.over.is_some() || function.filter.is_some() || !function.within_group.is_empty() {
            return None;
        }
        let name = folded(function.name.0.last()?.as_ident()?);
        let of = match name.as_str() {
            "lower" | "upper" | "trim" | "btrim" | "substr" | "replace" | "left" | "right" => {
                Some(Type::TEXT)
            }
            "length" | "char_length" | "octet_length" => Some(Type::INT4),
            "nextval" | "currval" => Some(Type::INT8),
            "now" | "current_timestamp" => Some(Type::single(Kind::Timestamptz)),
            "current_date" => Some(Type::single(Kind::Date)),
            _ => None,
        };
        let list = match &function.args {
            // CURRENT_TIMESTAMP
            FunctionArguments::None => return Some(Written::simple(name.to_uppercase(), of)),
            FunctionArguments::List(list)
                if list.clauses.is_empty() && list.duplicate_treatment.is_none() =>
            {
                &list.args
            }
            _ => return None,
        };
        let mut arguments = Vec::new();
        for argument in list {
            let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument else {
                return None;
            };
            let sequence = matches!(name.as_str(), "nextval" | "currval" | "setval") && arguments.is_empty();
            let written = match argument {
                Expr::Cast { expr, .. } if sequence => self.expr(expr, depth + 1)?,
                other => self.expr(other, depth + 1)?,
            };
            arguments.push(match (&written.untyped, written.of) {
                (Some(text), _) if sequence => format!("{}::regclass", literal(&self.sequence(text))),
                (Some(_), _) => self.cast(written, Type::TEXT).text,
                (
                    None,
                    Some(Type {
                        kind: Kind::Varchar,
                        array: false,
                    }),
                ) if of.is_some() => self.cast(written, Type::TEXT).text,
                _ => written.text,
            });
        }
        Some(Written::simple(
            format!("{}({})", quoted_function(&name), arguments.join(", ")),
            of,
        ))
    }

    /// The name of a sequence, without its schema where that is on the path.
    fn sequence(&self, text: &str) -> String {
        match name_parts(text).unwrap_or_default().as_slice() {
            [schema, name] => named(schema, name, self.path),
            [name] => quoted(name),
            _ => text.to_owned(),
        }
    }
}

/// Words are quoted only where a call of that name would be something else.
fn quoted_function(name: &str) -> String {
    match name {
        "coalesce" | "greatest" | "least" | "nullif" => name.to_uppercase(),
        "left" | "right" => format!("\"{name}\""),
        _ => quoted(name),
    }
}

/// `a AND b AND c` in its parts; parentheses on the right keep theirs.
fn flatten<'e>(expr: &'e Expr, of: &BinaryOperator, parts: &mut Vec<&'e Expr>) {
    let mut rights = Vec::new();
    let mut left = expr;
    loop {
        match left {
            Expr::BinaryOp {
                left: inner,
                op,
                right,
            } if op == of => {
                rights.push(right.as_ref());
                left = inner;
            }
            Expr::Nested(inner) if matches!(inner.as_ref(), Expr::BinaryOp { op, .. } if op == of) => {
                left = inner;
            }
            _ => break,
        }
    }
    parts.push(left);
    parts.extend(rights.into_iter().rev());
}

fn is_text(of: Type) -> bool {
    !of.array && matches!(of.kind, Kind::Text | Kind::Varchar | Kind::Bpchar | Kind::Name)
}

fn is_integer(of: Type) -> bool {
    !of.array && matches!(of.kind, Kind::Int2 | Kind::Int4 | Kind::Int8)
}

/// What two sides of an operator are cast to; what is not known is cast to nothing.
fn common(left: Option<Type>, right: Option<Type>) -> (Type, Type) {
    let (left, right) = match (left, right) {
        (None, None) => return (Type::TEXT, Type::TEXT),
        (Some(left), None) => (left, left),
        (None, Some(right)) => (right, right),
        (Some(left), Some(right)) => (left, right),
    };
    let bpchar = Type::single(Kind::Bpchar);
    match (left.kind, right.kind) {
        _ if left == bpchar && right == bpchar => (bpchar, bpchar),
        _ if is_text(left) && is_text(right) => (Type::TEXT, Type::TEXT),
        (Kind::Numeric, _) if is_integer(right) => (left, left),
        (_, Kind::Numeric) if is_integer(left) => (right, right),
        (Kind::Numeric, Kind::Float8) => (right, right),
        (Kind::Float4 | Kind::Float8, Kind::Numeric) => (left, Type::single(Kind::Float8)),
        (Kind::Float4 | Kind::Float8, _) if is_integer(right) => (left, Type::single(Kind::Float8)),
        (_, Kind::Float4 | Kind::Float8) if is_integer(left) => (Type::single(Kind::Float8), right),
        _ => (left, right),
    }
}

/// The type of a sum.
fn wider(left: Type, right: Type) -> Type {
    let rank = |of: Type| match of.kind {
        Kind::Int2 => 1,
        Kind::Int4 => 2,
        Kind::Int8 => 3,
        Kind::Numeric => 4,
        Kind::Float4 => 5,
        Kind::Float8 => 6,
        _ => 0,
    };
    if rank(left) >= rank(right) { left } else { right }
}

#[cfg(test)]
mod tests;
