//! [`Constants`]: from expressions in the parse tree to operands whose values are found without one.
//!
//! A literal of a text that has a skeleton becomes its number among the literals, because other texts share the plan. Whether the
//! bytes at its place are what the parser read is checked on the text at hand; that it holds for all that share the skeleton
//! follows, since they differ in digits and in the characters of strings only.

use pg_query::protobuf as pb;
use pg_query::protobuf::a_const::Val;
use pg_query::{Node, NodeEnum};

use super::test::{Cast, Operand, Source};
use crate::understand::rough::{self, Literal, LiteralKind};
use crate::understand::{names, own_operator};

/// Bytes of a literal that is kept as it is; of a longer one nothing is known.
const KNOWN_BYTES_MAX: usize = 64;

/// Signs and casts around a value at most.
const LAYERS_MAX: usize = 8;

/// The constants of one text.
pub(super) struct Constants<'a> {
    /// `None`: it is not UTF-8, so that places in it are not those of the tree.
    text: Option<&'a str>,
    /// `None`: it has no skeleton.
    literals: Option<Vec<Literal>>,
}

impl<'a> Constants<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        // The pass must reach the end of the text: what is doubtful behind the last literal is doubtful all the same.
        let literals = rough::skeleton(text, &mut Vec::new()).map(|_| {
            let mut found: Vec<Literal> = Vec::new();
            while let Some(literal) = rough::literal_from(text, found.last().map_or(0, |last| last.end)) {
                found.push(literal);
            }
            found
        });
        Constants {
            text: std::str::from_utf8(text).ok(),
            literals,
        }
    }

    /// A parameter or constant, with signs before it and casts around it.
    pub(super) fn operand(&self, node: &Node) -> Option<Operand> {
        self.layered(node, LAYERS_MAX)
    }

    fn layered(&self, node: &Node, layers: usize) -> Option<Operand> {
        let layers = layers.checked_sub(1)?;
        match node.node.as_ref()? {
            NodeEnum::ParamRef(parameter) => {
                let number = u16::try_from(parameter.number)
                    .ok()
                    .filter(|number| *number > 0)?;
                Some(plain(Source::Parameter(number)))
            }
            NodeEnum::AConst(constant) => self.constant(constant),
            NodeEnum::TypeCast(outer) => {
                let mut operand = self.layered(outer.arg.as_deref()?, layers)?;
                // Two casts may round and cut.
                if operand.cast != Cast::None {
                    return None;
                }
                operand.cast = cast(outer.type_name.as_ref()?, false)?;
                Some(operand)
            }
            NodeEnum::AExpr(expr) if expr.kind() == pb::AExprKind::AexprOp && expr.lexpr.is_none() => {
                let mut operand = self.layered(expr.rexpr.as_deref()?, layers)?;
                // Without a cast PostgreSQL takes the parameter for a floating-point number.
                if matches!(operand.source, Source::Parameter(_)) && operand.cast == Cast::None {
                    return None;
                }
                match own_operator(expr)? {
                    "-" => operand.negative = !operand.negative,
                    "+" => {}
                    _ => return None,
                }
                Some(operand)
            }
            _ => None,
        }
    }

    /// A parameter or constant that is an array, perhaps under a cast to one.
    pub(super) fn array(&self, node: &Node) -> Option<Operand> {
        let (node, cast) = match node.node.as_ref()? {
            NodeEnum::TypeCast(outer) => (outer.arg.as_deref()?, cast(outer.type_name.as_ref()?, true)?),
            _ => (node, Cast::None),
        };
        let operand = match node.node.as_ref()? {
            NodeEnum::ParamRef(_) => self.operand(node)?,
            NodeEnum::AConst(constant) if matches!(constant.val, Some(Val::Sval(_)) | None) => {
                self.constant(constant)?
            }
            _ => return None,
        };
        Some(Operand { cast, ..operand })
    }

    fn constant(&self, constant: &pb::AConst) -> Option<Operand> {
        if constant.isnull {
            return Some(plain(Source::Null));
        }
        let text = self.text?;
        let value = constant.val.as_ref()?;
        let Some(literals) = &self.literals else {
            let known: Box<[u8]> = match value {
                Val::Ival(value) => value.ival.to_string().as_bytes().into(),
                Val::Fval(value) => value.fval.as_bytes().into(),
                Val::Sval(value) => value.sval.as_bytes().into(),
                Val::Boolval(_) | Val::Bsval(_) => return None,
            };
            return (known.len() <= KNOWN_BYTES_MAX).then(|| plain(Source::Known(known)));
        };
        let begin = usize::try_from(constant.location).ok()?;
        let index = literals.partition_point(|literal| literal.begin < begin);
        let literal = *literals.get(index)?;
        // The parser takes the signs before a number, and brackets between them, as parts of it.
        let signs = text.get(begin..literal.begin)?;
        let known = signs
            .bytes()
            .all(|byte| byte == b'-' || byte == b'(' || byte.is_ascii_whitespace());
        let negative = signs.bytes().filter(|byte| *byte == b'-').count() % 2 == 1;
        let written = text.get(literal.begin..literal.end)?;
        let same = match (value, literal.kind) {
            (Val::Ival(read), LiteralKind::Integer) => {
                let read = i64::from(read.ival);
                written.parse() == Ok(if negative { -read } else { read })
            }
            (Val::Fval(read), LiteralKind::Integer | LiteralKind::Decimal) => {
                read.fval.strip_prefix('-').unwrap_or(&read.fval) == written
                    && read.fval.starts_with('-') == negative
            }
            (Val::Sval(read), LiteralKind::String) => {
                signs.is_empty()
                    && written[1..written.len() - 1].replace("''", "'") == read.sval
                    && !goes_on(&text[literal.end..])
            }
            _ => false,
        };
        let source = Source::Literal(u16::try_from(index).ok()?);
        (known && same).then(|| Operand {
            negative,
            ..plain(source)
        })
    }
}

fn plain(source: Source) -> Operand {
    Operand {
        source,
        negative: false,
        cast: Cast::None,
    }
}

/// A type without modifier, which may round or cut; an array of it, if one is asked for.
fn cast(kind: &pb::TypeName, array: bool) -> Option<Cast> {
    let is_array = !kind.array_bounds.is_empty();
    if kind.setof || kind.pct_type || !kind.typmods.is_empty() || is_array != array {
        return None;
    }
    let name = match names(&kind.names).as_slice() {
        [name] | ["pg_catalog", name] => *name,
        _ => return None,
    };
    Some(match name {
        "int2" | "int4" | "int8" => Cast::Integer,
        "numeric" => Cast::Numeric,
        "text" | "varchar" => Cast::Text,
        "date" => Cast::Date,
        "timestamp" | "timestamptz" => Cast::Timestamp,
        "uuid" => Cast::Uuid,
        _ => return None,
    })
}

/// Whether a string might go on in the next line, also behind comments. What else is there is part of the skeleton.
fn goes_on(behind: &str) -> bool {
    let mut next = behind.trim_ascii_start();
    while next.starts_with("--") {
        let end = next.find(['\n', '\r']).unwrap_or(next.len());
        next = next[end..].trim_ascii_start();
    }
    next.starts_with('\'')
}
