//! Texts that are cast to arrays: `'{1,2}'::integer[]` becomes `ARRAY['1', '2']::integer[]`, whose elements DataFusion casts; it knows no
//! notation of arrays. What it is not: the reading of arrays that clients bind or assign, which the types of the protocol have.

use corun_wire::values::{FixedOffset, Format, Kind, Type, Value as Read};
use datafusion::sql::sqlparser::ast::{self, ArrayElemTypeDef, DataType, Expr, Value};

/// The type of an array's elements.
pub(crate) fn element(of: &DataType) -> Option<&DataType> {
    match of {
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(of, _)
            | ArrayElemTypeDef::AngleBracket(of)
            | ArrayElemTypeDef::Parenthesis(of),
        ) => Some(of),
        _ => None,
    }
}

fn within(of: &Expr) -> &Expr {
    match of {
        Expr::Nested(inner) => within(inner),
        other => other,
    }
}

/// The text that a cast to an array is of, as an array of texts. `None`: it is none of one dimension.
pub(super) fn spelled_out(of: &Expr, to: &DataType) -> Option<Expr> {
    element(to).filter(|inner| element(inner).is_none())?;
    let Expr::Value(value) = within(of) else {
        return None;
    };
    let (Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text)) = &value.value else {
        return None;
    };
    let texts = Type::array_of(Kind::Text)?;
    let read = Read::read(texts, Format::Text, text.as_bytes(), &FixedOffset::UTC).ok()?;
    let Read::Array(array) = read else {
        return None;
    };
    if array.dimensions.len() > 1 || array.dimensions.iter().any(|dimension| dimension.lower != 1) {
        return None;
    }
    let elements = array.elements.into_iter().map(|element| {
        let value = match element {
            Some(Read::Text(text)) => Value::SingleQuotedString(text.into_owned()),
            _ => Value::Null,
        };
        Expr::Value(value.into())
    });
    Some(Expr::Array(ast::Array {
        elem: elements.collect(),
        named: true,
    }))
}

/// The elements of a cast of a written array, and their type, where none of them is more than a literal.
pub(crate) fn written(of: &Expr) -> Option<(Vec<Expr>, &DataType)> {
    let Expr::Cast { expr, data_type, .. } = within(of) else {
        return None;
    };
    let elements = match within(expr) {
        Expr::Array(array) => array.elem.clone(),
        other => match spelled_out(other, data_type)? {
            Expr::Array(array) => array.elem,
            _ => return None,
        },
    };
    let literals = elements.iter().all(|element| matches!(element, Expr::Value(_)));
    let of = element(data_type)?;
    literals.then_some((elements, of))
}
