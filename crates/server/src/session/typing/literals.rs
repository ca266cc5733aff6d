//! Constants: texts that are read as the type beside them, integers as narrow as PostgreSQL's, numbers as digits.

use super::super::parameters;
use super::super::zone::Zone;
use super::arithmetic;
use crate::catalog::pg_type_of;
use crate::data::DataError;
use arrow::datatypes::{DataType, Field, FieldRef};
use corun_wire::values::{Format, Kind, Type, Value};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Values};
use std::sync::Arc;

/// Most digits of Arrow's numbers of 128 bits.
const DIGITS_MAX: u8 = 38;

fn text(of: &Expr) -> Option<&str> {
    match of {
        Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => Some(text),
        _ => None,
    }
}

/// Whether it is a text that a statement gives no type.
pub(super) fn is_untyped(of: &Expr) -> bool {
    text(of).is_some()
}

/// Whether it is an integer that a statement gives no type.
pub(super) fn is_integer(of: &Expr) -> bool {
    matches!(
        of,
        Expr::Literal(ScalarValue::Int64(Some(_)) | ScalarValue::Int32(Some(_)), _)
    )
}

/// An integer as `integer` where it fits.
pub(super) fn narrowed(of: Expr) -> Expr {
    match of {
        Expr::Literal(ScalarValue::Int64(Some(value)), metadata) => match i32::try_from(value) {
            Ok(narrow) => Expr::Literal(ScalarValue::Int32(Some(narrow)), metadata),
            Err(_) => Expr::Literal(ScalarValue::Int64(Some(value)), metadata),
        },
        other => other,
    }
}

/// Rows of constants, of which those columns that have only integers that fit are `integer`.
///
/// # Errors
/// None that is known.
pub(super) fn narrowed_rows(of: Values) -> Result<LogicalPlan> {
    let fits = |of: &Expr| match of {
        Expr::Literal(ScalarValue::Null, _) => true,
        Expr::Cast(cast) => matches!(cast.expr.as_ref(), Expr::Literal(ScalarValue::Null, _)),
        of => is_integer(&narrowed(of.clone())) && narrowed(of.clone()) != *of,
    };
    let columns = of.schema.fields().len();
    let narrow: Vec<bool> = (0..columns)
        .map(|at| {
            *of.schema.field(at).data_type() == DataType::Int64
                && of.values.iter().all(|row| row.get(at).is_some_and(fits))
        })
        .collect();
    if !narrow.contains(&true) {
        return Ok(LogicalPlan::Values(of));
    }
    let null = || Expr::Literal(ScalarValue::Null, None);
    let rows = of.values.into_iter().map(|row| {
        let cells = row
            .into_iter()
            .zip(&narrow)
            .map(|(cell, narrow)| match (narrow, cell) {
                (true, Expr::Cast(_)) => null(),
                (true, cell) => narrowed(cell),
                (false, cell) => cell,
            });
        cells.collect::<Vec<_>>()
    });
    LogicalPlanBuilder::values(rows.collect())?.build()
}

/// A literal as the digits that it has: no power of ten beside them, and no sign that it lacks.
pub(super) fn plain(of: Expr) -> Expr {
    let Expr::Literal(value, metadata) = of else {
        return of;
    };
    let value = match value {
        ScalarValue::Decimal128(Some(digits), _, scale) if scale < 0 => {
            let whole = 10i128
                .checked_pow(u32::from(scale.unsigned_abs()))
                .and_then(|zeros| digits.checked_mul(zeros));
            match whole.and_then(|whole| decimal(whole, 0)) {
                Some(whole) => whole,
                None => ScalarValue::Float64(Some(digits as f64 * 10f64.powi(-i32::from(scale)))),
            }
        }
        ScalarValue::UInt64(Some(value)) => ScalarValue::Decimal128(Some(i128::from(value)), 20, 0),
        other => other,
    };
    Expr::Literal(value, metadata)
}

/// What is `numeric`, as the float that it is beside floats.
pub(super) fn as_float(of: Expr, schema: &DFSchema) -> Expr {
    match of {
        Expr::Literal(ScalarValue::Decimal128(Some(digits), _, scale), metadata) => {
            let written = format!("{digits}e{}", -i32::from(scale));
            let value = written.parse().unwrap_or(f64::NAN);
            Expr::Literal(ScalarValue::Float64(Some(value)), metadata)
        }
        of if of.get_type(schema).is_ok_and(|of| of.is_decimal()) => {
            Expr::Cast(Cast::new(Box::new(of), DataType::Float64))
        }
        of => of,
    }
}

/// A number with no more digits than it has.
fn decimal(unscaled: i128, scale: i8) -> Option<ScalarValue> {
    let digits = unscaled.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
    let digits = u8::try_from(digits).ok()?.max(scale.unsigned_abs());
    (digits <= DIGITS_MAX).then_some(ScalarValue::Decimal128(Some(unscaled), digits, scale))
}

/// A text without a type as the type of a field; others stay.
///
/// # Errors
/// What the type does not have.
pub(super) fn read(of: Expr, field: &Field, zone: Zone) -> Result<Expr> {
    let value = match text(&of) {
        Some(text) => value(text, field, zone)?,
        None => None,
    };
    Ok(value.map_or(of, |value| Expr::Literal(value, None)))
}

fn value(text: &str, field: &Field, zone: Zone) -> Result<Option<ScalarValue>> {
    let number = pg_type_of(field).oid.unsigned_abs();
    let Some(of) = Type::of(number).filter(|of| !of.array) else {
        return Ok(None);
    };
    match of.kind {
        Kind::Bool
        | Kind::Bytea
        | Kind::Int2
        | Kind::Int4
        | Kind::Int8
        | Kind::Float4
        | Kind::Float8
        | Kind::Numeric
        | Kind::Date
        | Kind::Time
        | Kind::Timestamp
        | Kind::Timestamptz
        | Kind::Interval
        | Kind::Uuid => {}
        // Blanks at its end do not count.
        Kind::Bpchar => return Ok(Some(ScalarValue::from(text.trim_end_matches(' ')))),
        _ => return Ok(None),
    }
    let value = Value::read(of, Format::Text, text.as_bytes(), &zone).map_err(DataError::from)?;
    if let Value::Uuid(bytes) = &value {
        return Ok(Some(ScalarValue::FixedSizeBinary(16, Some(bytes.to_vec()))));
    }
    let scalar = parameters::scalar(of, Some(value)).map_err(DataError::from)?;
    Ok(Some(match scalar {
        ScalarValue::Decimal128(Some(unscaled), _, scale) => decimal(unscaled, scale).unwrap_or(scalar),
        scalar if scalar.data_type() == *field.data_type() => scalar,
        scalar @ (ScalarValue::Float64(_) | ScalarValue::Binary(_)) => scalar,
        scalar => scalar.cast_to(field.data_type())?,
    }))
}

/// A cast: texts are read as PostgreSQL reads them, numbers rounded.
///
/// # Errors
/// What the type does not have.
pub(super) fn cast(expr: Expr, field: FieldRef, schema: &DFSchema, zone: Zone) -> Result<Expr> {
    use DataType as D;
    let again = |expr: Expr| {
        Expr::Cast(Cast {
            expr: Box::new(expr),
            field: Arc::clone(&field),
        })
    };
    let to = field.data_type();
    if is_untyped(&expr) {
        let read = match to {
            D::Boolean | D::Decimal128(..) | D::Int16 | D::Int32 | D::Int64 | D::Float32 | D::Float64 => {
                read(expr, &field, zone)?
            }
            D::Interval(_) | D::Time64(_) | D::Timestamp(_, None) => read(expr, &field, zone)?,
            _ => expr,
        };
        return Ok(again(read));
    }
    if !to.is_signed_integer() {
        return Ok(again(expr));
    }
    Ok(match expr.get_type(schema) {
        Ok(D::Float32 | D::Float64) => again(arithmetic::to_even(expr)),
        Ok(D::Decimal128(_, scale)) if scale > 0 => {
            let whole = Field::new("", D::Decimal128(DIGITS_MAX, 0), true);
            again(Expr::Cast(Cast {
                expr: Box::new(expr),
                field: Arc::new(whole),
            }))
        }
        _ => again(expr),
    })
}
