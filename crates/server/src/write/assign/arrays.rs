//! Assignments to columns of arrays, which are kept as their text: what PostgreSQL prints, moments in UTC.

use super::numbers::text_of;
use super::types::kept_as;
use super::{Stored, mismatch, read, shown, stored};
use crate::write::column::{Column, ColumnDefault};
use corun_wire::error::Refusal;
use corun_wire::values::{Array, FixedOffset, Kind, TimeZone, Value};
use std::borrow::Cow;

/// Arrays whose elements are assigned as values to columns of their type are.
pub(super) fn array<'v>(
    column: &Column,
    value: &Value<'_>,
    zone: &dyn TimeZone,
) -> Result<Stored<'v>, Refusal> {
    let given;
    let array = match value {
        Value::Array(array) => array,
        Value::Text(text) => {
            given = read(column.declared.of, text, zone)?;
            match &given {
                Value::Array(array) => array,
                other => return Err(mismatch(column, other)),
            }
        }
        other => return Err(mismatch(column, other)),
    };
    let element = column.declared.element();
    let of_element = Column {
        name: column.name.clone(),
        declared: element,
        stored: kept_as(&element),
        nullable: true,
        default: ColumnDefault::None,
        identity: None,
    };
    let cast = |value: &Option<Value<'_>>| -> Result<Option<Value<'static>>, Refusal> {
        let Some(value) = value else {
            return Ok(None);
        };
        // As text a number keeps all its digits.
        if element.of.kind == Kind::Numeric
            && element.precision.is_none()
            && matches!(value, Value::Numeric(_))
        {
            return Ok(Some(value.clone().into_owned()));
        }
        let kept = stored(&of_element, value, zone).map_err(|refusal| of_array(column, value, refusal))?;
        let shown = shown::value(&element, of_element.stored, kept.value());
        Ok(shown.map(Value::into_owned))
    };
    let elements = array.elements.iter().map(cast).collect::<Result<_, _>>()?;
    let made = Value::Array(Array {
        kind: element.of.kind,
        dimensions: array.dimensions.clone(),
        elements,
    });
    Ok(Stored::Text(Cow::Owned(text_of(&made, &FixedOffset::UTC))))
}

/// Elements that are not cast are told as what they are in.
fn of_array(column: &Column, element: &Value<'_>, refusal: Refusal) -> Refusal {
    match refusal.code {
        "42804" => mismatch(column, &Value::Array(Array::of(kind_of(element), Vec::new()))),
        _ => refusal,
    }
}

fn kind_of(value: &Value<'_>) -> Kind {
    super::type_of(value).of.kind
}
