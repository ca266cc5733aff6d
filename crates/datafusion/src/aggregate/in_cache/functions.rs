//! Aggregate functions as folds of the kernel, and their results from what was folded.
//!
//! `sum(x)`, `avg(x)` and `count(x)` of the same rows share what they need. A function whose argument may be NULL also counts its values, as a
//! group without any has no sum. Where rows are counted besides, the NULLs are counted instead: mostly there are none.

use super::keys::array;
use crate::join::keys::{CodeBuffer, bits_32, bits_64, codes_of, has_codes, raw};
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch, UInt64Array};
use arrow::buffer::{Buffer, NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema};
use corun_exec::Validity;
use corun_exec::groups::{Argument, Fold, Groups, Values};
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use std::ops::Range;
use std::sync::Arc;

/// Decimals of more digits have averages of sums of 256 bits in DataFusion.
const SUMMED_DIGITS_MAX: u8 = 25;

/// The values that folds take, and which rows count.
#[derive(Debug, Clone, PartialEq)]
struct Input {
    /// `None`: rows are counted.
    value: Option<PhysicalExprRef>,
    filter: Option<PhysicalExprRef>,
}

/// What a function is made of; numbers of folds.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Parts {
    Count(usize),
    /// A sum, least or largest value, and how many there were; `None`: at least one.
    Value(usize, Option<usize>),
    Average {
        sum: usize,
        count: usize,
    },
}

/// The functions of an aggregate.
#[derive(Debug, Clone)]
pub(super) struct Functions {
    inputs: Vec<Input>,
    /// Each with the number of its input.
    folds: Vec<(Fold, usize)>,
    /// The fold that counts all rows, which others count as those they skip.
    rows: Option<usize>,
    functions: Vec<(Arc<AggregateFunctionExpr>, Parts)>,
}

impl Functions {
    /// `None` where a function is none of count, sum, min, max and avg of numbers.
    pub(super) fn of(
        functions: &[Arc<AggregateFunctionExpr>],
        filters: &[Option<PhysicalExprRef>],
        schema: &Schema,
    ) -> Option<Functions> {
        let mut all = Functions {
            inputs: Vec::new(),
            folds: Vec::new(),
            rows: None,
            functions: Vec::with_capacity(functions.len()),
        };
        for (function, filter) in functions.iter().zip(filters) {
            let parts = all.parts(function, filter.as_ref(), schema)?;
            all.functions.push((Arc::clone(function), parts));
        }
        all.count_nulls();
        Some(all)
    }

    /// Has NULLs counted instead of values, where rows are counted besides or would be counted twice.
    fn count_nulls(&mut self) {
        let all_rows = Input {
            value: None,
            filter: None,
        };
        let of_values = |(fold, input): &(Fold, usize)| {
            let input = &self.inputs[*input];
            *fold == Fold::Count && input.value.is_some() && input.filter.is_none()
        };
        let counts: Vec<usize> = (0..self.folds.len())
            .filter(|fold| of_values(&self.folds[*fold]))
            .collect();
        let counts_rows = self
            .folds
            .iter()
            .any(|(fold, input)| *fold == Fold::Count && self.inputs[*input] == all_rows);
        if counts.len() + usize::from(counts_rows) > 1 {
            for fold in counts {
                self.folds[fold].0 = Fold::Skipped;
            }
            self.rows = Some(self.fold(Fold::Count, all_rows));
        }
    }

    fn parts(
        &mut self,
        function: &AggregateFunctionExpr,
        filter: Option<&PhysicalExprRef>,
        schema: &Schema,
    ) -> Option<Parts> {
        let plain = !function.is_distinct() && !function.is_reversed() && function.order_bys().is_empty();
        let arguments = function.expressions();
        let [argument] = arguments.as_slice() else {
            return None;
        };
        // Others may have the same names.
        let own = [count_udaf(), sum_udaf(), avg_udaf(), min_udaf(), max_udaf()];
        if !plain || own.iter().all(|own| **own != *function.fun()) {
            return None;
        }
        let data_type = argument.data_type(schema).ok()?;
        let nullable = argument.nullable(schema).ok()? || filter.is_some();
        let constant = argument
            .downcast_ref::<Literal>()
            .is_some_and(|literal| !literal.value().is_null());
        let value = Input {
            value: Some(Arc::clone(argument)),
            filter: filter.cloned(),
        };
        // Rows without NULLs are counted, whatever is in them.
        let counted = match constant || !argument.nullable(schema).ok()? {
            true => Input {
                value: None,
                filter: filter.cloned(),
            },
            false => value.clone(),
        };
        let result = function.field().data_type().clone();
        let is_same = result == data_type;
        let fold = match (function.fun().name(), &data_type) {
            ("count", _) => return Some(Parts::Count(self.fold(Fold::Count, counted))),
            ("sum", DataType::Int64 | DataType::UInt64) if is_same => Fold::SumI64,
            ("sum", DataType::Float64) if is_same => Fold::SumF64,
            ("sum", DataType::Decimal128(_, _)) if matches!(result, DataType::Decimal128(_, _)) => {
                Fold::SumI128
            }
            ("avg", DataType::Float64) if is_same => Fold::SumF64,
            ("avg", DataType::Decimal128(digits, _)) if *digits <= SUMMED_DIGITS_MAX => Fold::SumI128,
            ("min", DataType::Decimal128(_, _)) if is_same => Fold::MinI128,
            ("max", DataType::Decimal128(_, _)) if is_same => Fold::MaxI128,
            // Of floats in the order that DataFusion has for them without groups: NaN is the largest. With groups, what it says of NaNs
            // depends on the order of rows.
            ("min", _) if is_same && has_codes(&data_type) => Fold::Min,
            ("max", _) if is_same && has_codes(&data_type) => Fold::Max,
            _ => return None,
        };
        let fold = self.fold(fold, value);
        if function.fun().name() == "avg" {
            let count = self.fold(Fold::Count, counted);
            return Some(Parts::Average { sum: fold, count });
        }
        let count = nullable.then(|| self.fold(Fold::Count, counted));
        Some(Parts::Value(fold, count))
    }

    /// The number of a fold of an input, which may be there already.
    fn fold(&mut self, fold: Fold, input: Input) -> usize {
        let input = match self.inputs.iter().position(|known| *known == input) {
            Some(known) => known,
            None => {
                self.inputs.push(input);
                self.inputs.len() - 1
            }
        };
        let wanted = (fold, input);
        match self.folds.iter().position(|known| *known == wanted) {
            Some(known) => known,
            None => {
                self.folds.push(wanted);
                self.folds.len() - 1
            }
        }
    }

    /// The folds, in the order that [`Evaluation::arguments`] has.
    pub(super) fn folds(&self) -> Vec<Fold> {
        self.folds.iter().map(|(fold, _)| *fold).collect()
    }

    /// Evaluates all arguments and filters over a batch.
    ///
    /// # Errors
    /// Of the expressions.
    pub(super) fn evaluate(&self, batch: &RecordBatch) -> Result<Evaluation> {
        let evaluate = |input: &Input| {
            let passes = input
                .filter
                .as_ref()
                .map(|filter| passes(filter, batch))
                .transpose()?;
            let Some(value) = &input.value else {
                return Ok((None, passes));
            };
            let column = value.evaluate(batch)?.into_array(batch.num_rows())?;
            let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
            Ok((Some(column), NullBuffer::union(passes.as_ref(), nulls.as_ref())))
        };
        let inputs: Vec<(Option<ArrayRef>, Option<NullBuffer>)> =
            self.inputs.iter().map(evaluate).collect::<Result<_>>()?;
        let taken = |(fold, input): &(Fold, usize)| {
            let (column, valid) = &inputs[*input];
            (Taken::of(*fold, column.as_ref()), valid.clone())
        };
        Ok(Evaluation(self.folds.iter().map(taken).collect()))
    }

    /// The results of groups `range`.
    ///
    /// # Errors
    /// An average that does not fit its type.
    pub(super) fn results(&self, groups: &Groups, range: &Range<usize>) -> Result<Vec<ArrayRef>> {
        let result = |(function, parts): &(Arc<AggregateFunctionExpr>, Parts)| {
            self.result(function, *parts, groups, range)
        };
        self.functions.iter().map(result).collect()
    }

    fn result(
        &self,
        function: &AggregateFunctionExpr,
        parts: Parts,
        groups: &Groups,
        range: &Range<usize>,
    ) -> Result<ArrayRef> {
        let numbers = |fold: usize| -> Vec<u64> { groups.state(fold, range.clone()).collect() };
        let counts = |fold: usize| -> Vec<u64> {
            match (self.folds[fold].0, self.rows) {
                (Fold::Skipped, Some(rows)) => {
                    let skipped = groups.state(fold, range.clone());
                    let rows = groups.state(rows, range.clone());
                    rows.zip(skipped).map(|(rows, skipped)| rows - skipped).collect()
                }
                _ => numbers(fold),
            }
        };
        let wide =
            |fold: usize| Buffer::from_vec(groups.state_i128(fold, range.clone()).collect::<Vec<i128>>());
        let present = |count: &[u64]| {
            let nulls: NullBuffer = count.iter().map(|count| *count > 0).collect::<Vec<bool>>().into();
            (nulls.null_count() > 0).then_some(nulls)
        };
        let field = function.field();
        let result = field.data_type();
        match parts {
            Parts::Count(fold) => array(result, range.len(), Buffer::from_vec(counts(fold)), None),
            Parts::Value(fold, count) => {
                let nulls = count.and_then(|count| present(&counts(count)));
                let values = match self.folds[fold].0 {
                    Fold::SumI128 | Fold::MinI128 | Fold::MaxI128 => wide(fold),
                    Fold::Min | Fold::Max => values_of_codes(result, numbers(fold))?,
                    _ => Buffer::from_vec(numbers(fold)),
                };
                array(result, range.len(), values, nulls)
            }
            Parts::Average { sum, count } if *result == DataType::Float64 => {
                let counts = counts(count);
                let nulls = present(&counts);
                let sums = numbers(sum).into_iter().map(f64::from_bits);
                let averages = sums.zip(&counts).map(|(sum, count)| sum / *count as f64);
                Ok(Arc::new(Float64Array::new(
                    averages.collect::<Vec<_>>().into(),
                    nulls,
                )))
            }
            Parts::Average { sum, count } => {
                // DataFusion's own division and rounding, from the states its first step would have made.
                let counts = counts(count);
                let nulls = present(&counts);
                let states = function.state_fields()?;
                let [of_count, of_sum] = states.as_slice() else {
                    return Err(internal_datafusion_err!(
                        "avg has other states than count and sum"
                    ));
                };
                let input = function.expressions()[0].clone();
                let scale = match result_scale(of_sum.data_type()) {
                    Some(scale) => scale,
                    None => {
                        return Err(internal_datafusion_err!(
                            "avg of {input} has a sum of another type"
                        ));
                    }
                };
                let sums = array(
                    &DataType::Decimal128(38, scale),
                    range.len(),
                    wide(sum),
                    nulls.clone(),
                )?;
                let counts: ArrayRef = Arc::new(UInt64Array::new(counts.into(), nulls));
                let states = [
                    cast(&counts, of_count.data_type())?,
                    cast(&sums, of_sum.data_type())?,
                ];
                let rows: Vec<usize> = (0..range.len()).collect();
                let mut accumulator = function.create_groups_accumulator()?;
                accumulator.merge_batch(&states, &rows, rows.len())?;
                accumulator.evaluate(EmitTo::All)
            }
        }
    }
}

fn result_scale(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    }
}

/// Rows that a filter lets through.
fn passes(filter: &PhysicalExprRef, batch: &RecordBatch) -> Result<NullBuffer> {
    let passes = filter.evaluate(batch)?.into_array(batch.num_rows())?;
    let passes = passes.as_boolean();
    Ok(NullBuffer::new(match passes.nulls() {
        Some(nulls) => passes.values() & nulls.inner(),
        None => passes.values().clone(),
    }))
}

/// The values that [`codes_of`] made codes of.
fn values_of_codes(data_type: &DataType, codes: Vec<u64>) -> Result<Buffer> {
    use DataType::*;
    let wide = |bias: u64| Buffer::from_vec(codes.iter().map(|code| code ^ bias).collect::<Vec<u64>>());
    let signed = || codes.iter().map(|code| *code as u32 ^ 1 << 31);
    Ok(match data_type {
        Int64 | Date64 | Time64(_) | Timestamp(_, _) | Duration(_) | Decimal64(_, _) => wide(1 << 63),
        UInt64 => wide(0),
        Float64 => Buffer::from_vec(codes.iter().map(|code| bits_64(*code)).collect::<Vec<u64>>()),
        Float32 => Buffer::from_vec(
            codes
                .iter()
                .map(|code| bits_32(*code as u32))
                .collect::<Vec<u32>>(),
        ),
        Int32 | Date32 | Time32(_) | Decimal32(_, _) => Buffer::from_vec(signed().collect::<Vec<u32>>()),
        UInt32 => Buffer::from_vec(codes.iter().map(|code| *code as u32).collect::<Vec<u32>>()),
        Int16 | UInt16 => Buffer::from_vec(signed().map(|value| value as u16).collect::<Vec<u16>>()),
        Int8 | UInt8 => Buffer::from_vec(signed().map(|value| value as u8).collect::<Vec<u8>>()),
        other => return Err(internal_datafusion_err!("{other} is not read back from codes")),
    })
}

/// The values of a batch that a fold takes.
enum Taken {
    Rows,
    I64(ScalarBuffer<i64>),
    F64(ScalarBuffer<f64>),
    I128(ScalarBuffer<i128>),
    Codes(CodeBuffer),
}

impl Taken {
    fn of(fold: Fold, column: Option<&ArrayRef>) -> Taken {
        match (fold, column) {
            (Fold::Count | Fold::Skipped, _) | (_, None) => Taken::Rows,
            (Fold::SumI64, Some(column)) => Taken::I64(raw(column)),
            (Fold::SumF64, Some(column)) => Taken::F64(raw(column)),
            (Fold::Min | Fold::Max, Some(column)) => Taken::Codes(codes_of(column).0),
            (Fold::SumI128 | Fold::MinI128 | Fold::MaxI128, Some(column)) => Taken::I128(raw(column)),
        }
    }

    fn argument<'a>(&'a self, valid: Option<&'a NullBuffer>) -> Argument<'a> {
        Argument {
            values: match self {
                Taken::Rows => Values::None,
                Taken::I64(values) => Values::I64(values),
                Taken::F64(values) => Values::F64(values),
                Taken::I128(values) => Values::I128(values),
                Taken::Codes(codes) => Values::Codes(codes.codes()),
            },
            valid: valid.map(validity),
        }
    }
}

/// The values and the rows that count of a batch, for each fold.
pub(super) struct Evaluation(Vec<(Taken, Option<NullBuffer>)>);

impl Evaluation {
    /// As the kernel takes them.
    pub(super) fn arguments(&self) -> Vec<Argument<'_>> {
        let taken = self.0.iter();
        taken
            .map(|(taken, valid)| taken.argument(valid.as_ref()))
            .collect()
    }
}

/// A bitmap as the kernel takes it.
pub(super) fn validity(nulls: &NullBuffer) -> Validity<'_> {
    Validity::new(nulls.validity(), nulls.offset(), nulls.len())
}
