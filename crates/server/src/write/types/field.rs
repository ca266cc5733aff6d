//! Columns as the planner sees them: Arrow's fields, with what Arrow's types do not say as metadata (`catalog::types` reads it).
//!
//! | declared | Arrow |
//! |---|---|
//! | `time`, `interval` | `Time64`, `Interval`, which the store keeps as an integer and as 16 bytes of the same layout |
//! | `uuid`, `json`, `jsonb` | the extensions that casts to these types give |
//! | `varchar`, `char(n)`, `name`, `oid`, arrays, `numeric` without digits, `timestamp(p)` | number of the type and its limits |
//! | the others | only Arrow's own type |

use crate::catalog::{metadata_of, pg_type};
use crate::write::column::{Column, TableInfo};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, IntervalUnit, Schema, TimeUnit};
use corun_datafusion::store::{arrow_type, shown_as};
use corun_store::Type;
use corun_wire::error::{Refusal, code};
use corun_wire::values::Kind;
use std::sync::Arc;

/// A column.
pub(crate) fn declared_arrow_field(column: &Column) -> Field {
    let of = &column.declared;
    let data_type = match (of.of.kind, of.of.array, column.stored) {
        (Kind::Time, false, Type::I64) => DataType::Time64(TimeUnit::Microsecond),
        (
            Kind::Interval,
            false,
            Type::FixedBytes {
                bytes: super::INTERVAL_BYTES,
            },
        ) => DataType::Interval(IntervalUnit::MonthDayNano),
        _ => arrow_type(column.stored),
    };
    let plain = pg_type(&data_type);
    let (oid, modifier) = (of.of.oid(), of.modifier());
    let is_plain = plain.oid.unsigned_abs() == oid && plain.modifier == modifier;
    let field = Field::new(&column.name, data_type, column.nullable);
    match is_plain {
        true => field,
        false => field.with_metadata(metadata_of(oid, modifier)),
    }
}

/// Rows of a table, as the store's types are in Arrow, as the planner sees them; columns behind those of the table stay.
///
/// # Errors
/// Columns of another table.
pub(crate) fn declared_batch(info: &TableInfo, batch: &RecordBatch) -> Result<RecordBatch, Refusal> {
    let mut fields: Vec<Field> = info.columns.iter().map(declared_arrow_field).collect();
    let given = batch.schema();
    fields.extend(
        given
            .fields()
            .iter()
            .skip(fields.len())
            .map(|field| field.as_ref().clone()),
    );
    shown_as(batch, &Arc::new(Schema::new(fields)))
        .map_err(|error| Refusal::new(code::INTERNAL_ERROR, error.to_string()))
}
