//! [`Columns`]: rows of the store made into a batch, column by column.
//!
//! Rows come in small blocks ([`BLOCK_ROWS`]), and each column reads its field of all rows of a block: the decision what a
//! column holds is made once a block, and the rows stay in the first caches meanwhile.

use super::types::arrow_type;
use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, FixedSizeBinaryBuilder,
    Float32Builder, Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, RecordBatch,
    RecordBatchOptions, StringViewBuilder, TimestampMicrosecondBuilder,
};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use corun_store::{Layout, RowRef, Type};
use std::sync::Arc;

/// Rows of a block: with rows of 100 bytes, half of a first-level cache. Unmeasured.
pub const BLOCK_ROWS: usize = 256;

enum Builder {
    Bool(BooleanBuilder),
    I8(Int8Builder),
    I16(Int16Builder),
    I32(Int32Builder),
    I64(Int64Builder),
    F32(Float32Builder),
    F64(Float64Builder),
    Decimal(Decimal128Builder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Text(StringViewBuilder),
    FixedText(StringViewBuilder),
    Bytes(BinaryBuilder),
    FixedBytes(FixedSizeBinaryBuilder),
}

impl Builder {
    fn new(data_type: Type, rows: usize) -> Self {
        match data_type {
            Type::Bool => Builder::Bool(BooleanBuilder::with_capacity(rows)),
            Type::I8 => Builder::I8(Int8Builder::with_capacity(rows)),
            Type::I16 => Builder::I16(Int16Builder::with_capacity(rows)),
            Type::I32 => Builder::I32(Int32Builder::with_capacity(rows)),
            Type::I64 => Builder::I64(Int64Builder::with_capacity(rows)),
            Type::F32 => Builder::F32(Float32Builder::with_capacity(rows)),
            Type::F64 => Builder::F64(Float64Builder::with_capacity(rows)),
            Type::Decimal { .. } => {
                Builder::Decimal(Decimal128Builder::with_capacity(rows).with_data_type(arrow_type(data_type)))
            }
            Type::Date => Builder::Date(Date32Builder::with_capacity(rows)),
            Type::Timestamp | Type::TimestampTz => Builder::Timestamp(
                TimestampMicrosecondBuilder::with_capacity(rows).with_data_type(arrow_type(data_type)),
            ),
            Type::Uuid => Builder::FixedBytes(FixedSizeBinaryBuilder::with_capacity(rows, 16)),
            Type::Text { .. } => Builder::Text(StringViewBuilder::with_capacity(rows)),
            Type::FixedText { .. } => Builder::FixedText(StringViewBuilder::with_capacity(rows)),
            Type::Bytes { .. } => Builder::Bytes(BinaryBuilder::with_capacity(rows, rows * 16)),
            Type::FixedBytes { bytes } => Builder::FixedBytes(FixedSizeBinaryBuilder::with_capacity(
                rows,
                i32::try_from(bytes).unwrap_or(i32::MAX),
            )),
        }
    }

    fn append(&mut self, rows: &[RowRef<'_>], column: usize) -> Result<(), ArrowError> {
        macro_rules! append {
            ($builder:expr, $row:ident => $value:expr) => {
                for $row in rows {
                    if $row.is_null(column) {
                        $builder.append_null();
                    } else {
                        $builder.append_value($value);
                    }
                }
            };
        }
        match self {
            Builder::Bool(builder) => append!(builder, row => row.boolean(column)),
            Builder::I8(builder) => append!(builder, row => row.int(column) as i8),
            Builder::I16(builder) => append!(builder, row => row.int(column) as i16),
            Builder::I32(builder) => append!(builder, row => row.int(column) as i32),
            Builder::I64(builder) => append!(builder, row => row.int(column)),
            Builder::F32(builder) => append!(builder, row => row.float(column) as f32),
            Builder::F64(builder) => append!(builder, row => row.float(column)),
            Builder::Decimal(builder) => append!(builder, row => row.decimal(column)),
            Builder::Date(builder) => append!(builder, row => row.int(column) as i32),
            Builder::Timestamp(builder) => append!(builder, row => row.int(column)),
            Builder::Text(builder) => append!(builder, row => row.text(column)),
            Builder::FixedText(builder) => append!(builder, row => row.text(column).trim_end_matches(' ')),
            Builder::Bytes(builder) => append!(builder, row => row.bytes(column)),
            Builder::FixedBytes(builder) => {
                for row in rows {
                    if row.is_null(column) {
                        builder.append_null();
                    } else {
                        builder.append_value(row.bytes(column))?;
                    }
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> ArrayRef {
        match self {
            Builder::Bool(mut builder) => Arc::new(builder.finish()),
            Builder::I8(mut builder) => Arc::new(builder.finish()),
            Builder::I16(mut builder) => Arc::new(builder.finish()),
            Builder::I32(mut builder) => Arc::new(builder.finish()),
            Builder::I64(mut builder) => Arc::new(builder.finish()),
            Builder::F32(mut builder) => Arc::new(builder.finish()),
            Builder::F64(mut builder) => Arc::new(builder.finish()),
            Builder::Decimal(mut builder) => Arc::new(builder.finish()),
            Builder::Date(mut builder) => Arc::new(builder.finish()),
            Builder::Timestamp(mut builder) => Arc::new(builder.finish()),
            Builder::Text(mut builder) | Builder::FixedText(mut builder) => Arc::new(builder.finish()),
            Builder::Bytes(mut builder) => Arc::new(builder.finish()),
            Builder::FixedBytes(mut builder) => Arc::new(builder.finish()),
        }
    }
}

/// A batch being made of some columns of a table.
pub struct Columns {
    rows: usize,
    /// Position in the table, and what becomes the column.
    builders: Vec<(usize, Builder)>,
}

impl Columns {
    /// An empty one of these columns, with room for `rows`.
    pub fn new(layout: &Layout, columns: &[usize], rows: usize) -> Self {
        let builder = |&column: &usize| (column, Builder::new(layout.data_type(column), rows));
        Columns {
            rows: 0,
            builders: columns.iter().map(builder).collect(),
        }
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds rows.
    ///
    /// # Errors
    /// None that rows of the table can cause.
    pub fn append(&mut self, rows: &[RowRef<'_>]) -> Result<(), ArrowError> {
        for (column, builder) in &mut self.builders {
            builder.append(rows, *column)?;
        }
        self.rows += rows.len();
        Ok(())
    }

    /// The batch.
    ///
    /// # Errors
    /// A schema of other columns.
    pub fn finish(self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let arrays = self
            .builders
            .into_iter()
            .map(|(_, builder)| builder.finish())
            .collect();
        RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
    }
}
