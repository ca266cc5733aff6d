//! [`Columns`]: rows of the store made into a batch, column by column.
//!
//! Rows come in small blocks ([`Block`]), and each column reads its field of all rows of a block: the decision what a
//! column holds is made once a block, and the rows stay in the first caches meanwhile.

use super::shown::shown;
use super::types::{arrow_schema, arrow_type, with_row_numbers};
use arrow::array::{
    ArrayRef, BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, FixedSizeBinaryBuilder,
    Float32Builder, Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, RecordBatch,
    RecordBatchOptions, StringViewBuilder, TimestampMicrosecondBuilder, UInt32Builder,
};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use corun_store::{Found, Layout, Rid, RowRef, Table, Type};
use datafusion::error::Result;
use std::sync::Arc;

/// Rows of a block: with rows of 100 bytes, half of a first-level cache. Unmeasured.
const BLOCK_ROWS: usize = 256;

/// Among the positions of columns: the row's number, which is in no column of a table.
pub const NUMBER: usize = usize::MAX;

/// A few rows that are put into a batch together.
pub struct Block<'a> {
    rows: Vec<RowRef<'a>>,
    numbers: Vec<u32>,
}

impl<'a> Block<'a> {
    /// Without rows.
    pub fn new() -> Self {
        Block {
            rows: Vec::with_capacity(BLOCK_ROWS),
            numbers: Vec::with_capacity(BLOCK_ROWS),
        }
    }

    /// Its rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether it has as many rows as it should.
    pub fn is_full(&self) -> bool {
        self.rows.len() >= BLOCK_ROWS
    }

    /// Adds a row.
    #[inline]
    pub fn push(&mut self, found: Found<'a>) {
        self.rows.push(found.row);
        self.numbers.push(found.rid.0);
    }

    /// Takes all rows out.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.numbers.clear();
    }
}

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
    Number(UInt32Builder),
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

    fn append(&mut self, block: &Block<'_>, column: usize) -> Result<(), ArrowError> {
        let rows = &block.rows;
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
            Builder::Number(builder) => builder.append_slice(&block.numbers),
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
            Builder::Number(mut builder) => Arc::new(builder.finish()),
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
    /// An empty one of these columns ([`NUMBER`] perhaps among them), with room for `rows`.
    ///
    /// # Errors
    /// A column that the table does not have any more: a transaction had added it, and has taken it back.
    pub fn new(layout: &Layout, columns: &[usize], rows: usize) -> Result<Self, ArrowError> {
        let builder = |&column: &usize| match column {
            NUMBER => Ok((column, Builder::Number(UInt32Builder::with_capacity(rows)))),
            column if column < layout.columns() => Ok((column, Builder::new(layout.data_type(column), rows))),
            _ => Err(ArrowError::SchemaError(
                "a column of the table that is read was taken back; plan the statement again".to_owned(),
            )),
        };
        Ok(Columns {
            rows: 0,
            builders: columns.iter().map(builder).collect::<Result<_, _>>()?,
        })
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds rows.
    ///
    /// # Errors
    /// None that rows of the table can cause.
    pub fn append(&mut self, block: &Block<'_>) -> Result<(), ArrowError> {
        for (column, builder) in &mut self.builders {
            builder.append(block, *column)?;
        }
        self.rows += block.len();
        Ok(())
    }

    /// The batch.
    ///
    /// # Errors
    /// A schema of other columns.
    pub fn finish(self, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let arrays = self.builders.into_iter().zip(schema.fields());
        let arrays = arrays.map(|((_, builder), field)| shown(builder.finish(), field.data_type()));
        RecordBatch::try_new_with_options(Arc::clone(schema), arrays.collect::<Result<_, _>>()?, &options)
    }
}

/// Rows of a table as a batch of all its columns, with the row's number behind them if wanted: what a scan of the table gives
/// ([`super::StoreTable`]). For rows that a transaction has written or locked.
///
/// ```
/// use corun_datafusion::store::batch_of;
/// use corun_store::{Lock, Options, Store, TableDef, Type};
///
/// let store = Store::in_memory(Options::default())?;
/// let table = store.create_table(TableDef::new("t").column("k", Type::I64).primary_key(&["k"]))?;
/// let mut session = store.session_here()?;
/// let transaction = session.begin()?;
/// let mut row = table.new_row();
/// row.set("k", 7)?;
/// let rid = transaction.insert(&table, &row)?;
/// let row = transaction.get(&table, rid, Lock::Shared)?.unwrap();
/// let batch = batch_of(&table, &[(rid, row)], true)?;
/// assert_eq!((batch.num_rows(), batch.num_columns()), (1, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// None that rows of the table can cause.
pub fn batch_of(table: &Table, rows: &[(Rid, RowRef<'_>)], numbered: bool) -> Result<RecordBatch> {
    let definition = table.definition();
    let mut schema = arrow_schema(&definition);
    let mut columns: Vec<usize> = (0..definition.columns.len()).collect();
    if numbered {
        schema = with_row_numbers(&schema);
        columns.push(NUMBER);
    }
    let mut batch = Columns::new(table.layout(), &columns, rows.len())?;
    let mut block = Block::new();
    for rows in rows.chunks(BLOCK_ROWS) {
        block.clear();
        rows.iter().for_each(|&(rid, row)| block.push(Found { rid, row }));
        batch.append(&block)?;
    }
    Ok(batch.finish(&schema)?)
}
