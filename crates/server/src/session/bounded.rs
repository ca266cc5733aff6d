//! Functions whose result may be far larger than what they are given: it is counted before it is made.
//!
//! Values of functions are in no memory pool. `repeat('x', 1000000000)` would be made at once, while the statement is planned, and memory that
//! the system has not ends the whole process.

use crate::data::DataError;
use arrow::array::{Array, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

/// Bytes that one call may return for one batch of rows.
const BYTES_MAX: u128 = 256 << 20;

/// How the bytes of a result are found from the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Grows {
    /// A text so many times.
    Repeated,
    /// A text of so many characters.
    Padded,
    /// As many values as fit between two.
    Series,
    /// A value so many times.
    Filled,
    /// A list of so many values.
    Resized,
    /// A part of a text replaced by another, wherever it is.
    Replaced,
    /// A type with a size in its name.
    Typed,
}

const FUNCTIONS: [(&str, Grows); 10] = [
    ("repeat", Grows::Repeated),
    ("lpad", Grows::Padded),
    ("rpad", Grows::Padded),
    ("range", Grows::Series),
    ("generate_series", Grows::Series),
    ("array_repeat", Grows::Filled),
    ("array_resize", Grows::Resized),
    ("replace", Grows::Replaced),
    ("regexp_replace", Grows::Replaced),
    ("arrow_cast", Grows::Typed),
];

/// Puts the bounded functions in the place of those that a session has.
pub(super) fn install(context: &SessionContext) {
    for (name, grows) in FUNCTIONS {
        if let Ok(inner) = context.udf(name) {
            context.register_udf(ScalarUDF::new_from_impl(Bounded { inner, grows }));
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    grows: Grows,
}

/// Numbers of an argument, one for all rows or one for each.
struct Numbers(Int64Array);

impl Numbers {
    /// `None` where it has none.
    fn of(argument: &ColumnarValue, numbers: impl Fn(&dyn Array) -> Option<Int64Array>) -> Option<Self> {
        match argument {
            ColumnarValue::Array(array) => numbers(array.as_ref()).map(Self),
            ColumnarValue::Scalar(scalar) => numbers(scalar.to_array_of_size(1).ok()?.as_ref()).map(Self),
        }
    }

    /// Whole numbers, days, ticks.
    fn values(argument: &ColumnarValue) -> Option<Self> {
        Self::of(argument, |array| {
            let array = cast(array, &DataType::Int64).ok()?;
            Some(array.as_primitive::<Int64Type>().clone())
        })
    }

    /// Bytes of texts.
    fn lengths(argument: &ColumnarValue) -> Option<Self> {
        Self::of(argument, |array| {
            let lengths = cast(&length(array).ok()?, &DataType::Int64).ok()?;
            Some(lengths.as_primitive::<Int64Type>().clone())
        })
    }

    /// That of a row; 0 for NULL.
    fn at(&self, row: usize) -> i128 {
        let row = if self.0.len() == 1 { 0 } else { row };
        match row < self.0.len() && self.0.is_valid(row) {
            true => i128::from(self.0.value(row)),
            false => 0,
        }
    }
}

/// Bytes of one value of an argument, about.
fn bytes_each(argument: &ColumnarValue) -> u128 {
    match argument {
        ColumnarValue::Array(array) => (array.get_array_memory_size() / array.len().max(1)) as u128 + 1,
        ColumnarValue::Scalar(scalar) => scalar.size() as u128,
    }
}

/// Nanoseconds of a step of a series of dates or times; a number for other ones.
fn step(argument: &ColumnarValue, of: &DataType) -> Option<Numbers> {
    if argument.data_type() != DataType::Interval(IntervalUnit::MonthDayNano) {
        return Numbers::values(argument);
    }
    let tick: i128 = match of {
        DataType::Date32 => 86_400_000_000_000,
        DataType::Timestamp(TimeUnit::Second, _) => 1_000_000_000,
        DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
        DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
        _ => 1,
    };
    Numbers::of(argument, |array| {
        let steps = array.as_primitive_opt::<IntervalMonthDayNanoType>()?;
        let ticks = |value: arrow::datatypes::IntervalMonthDayNano| {
            let days = i128::from(value.months) * 28 + i128::from(value.days);
            let ticks = (days * 86_400_000_000_000 + i128::from(value.nanoseconds)) / tick;
            i64::try_from(ticks).unwrap_or(i64::MAX)
        };
        Some(steps.iter().map(|value| value.map(ticks)).collect())
    })
}

/// The largest number in a text.
fn size_in(text: &str) -> u128 {
    let numbers = text.split(|c: char| !c.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).max().unwrap_or(0)
}

impl Grows {
    /// Bytes of the result; `None`: the arguments are of no kind that is known.
    fn bytes(self, args: &[ColumnarValue], rows: usize) -> Option<u128> {
        let sum = |of: &dyn Fn(usize) -> i128| {
            let rows = (0..rows).map(|row| u128::try_from(of(row)).unwrap_or(0));
            rows.fold(0u128, u128::saturating_add)
        };
        match self {
            Grows::Repeated => {
                let (texts, times) = (Numbers::lengths(args.first()?)?, Numbers::values(args.get(1)?)?);
                Some(sum(&|row| texts.at(row) * times.at(row).max(0)))
            }
            Grows::Padded => {
                let characters = Numbers::values(args.get(1)?)?;
                Some(sum(&|row| characters.at(row) * 4))
            }
            Grows::Series => {
                let first = args.first()?;
                let (start, stop) = match args.get(1) {
                    None => (None, Numbers::values(first)?),
                    Some(stop) => (Some(Numbers::values(first)?), Numbers::values(stop)?),
                };
                let steps = args.get(2).map(|argument| step(argument, &first.data_type()));
                let steps = match steps {
                    Some(None) => return None,
                    Some(steps) => steps,
                    None => None,
                };
                Some(sum(&|row| {
                    let length = stop.at(row) - start.as_ref().map_or(0, |start| start.at(row));
                    let step = steps.as_ref().map_or(1, |steps| steps.at(row));
                    // A step of 0 is refused by the function itself.
                    (length.checked_div(step).unwrap_or(0) + 1) * 8
                }))
            }
            Grows::Filled => {
                let (each, times) = (bytes_each(args.first()?), Numbers::values(args.get(1)?)?);
                Some(sum(&|row| times.at(row)).saturating_mul(each))
            }
            Grows::Resized => {
                let (sizes, each) = (Numbers::values(args.get(1)?)?, args.get(2).map_or(8, bytes_each));
                Some(sum(&|row| sizes.at(row)).saturating_mul(each))
            }
            Grows::Replaced => {
                let (texts, with) = (Numbers::lengths(args.first()?)?, Numbers::lengths(args.get(2)?)?);
                let from = Numbers::lengths(args.get(1)?)?;
                Some(sum(&|row| {
                    // A pattern may be longer than what it finds, but hardly where this matters.
                    let places = texts.at(row) / from.at(row).max(1);
                    texts.at(row) + places * with.at(row)
                }))
            }
            Grows::Typed => match args.get(1)? {
                ColumnarValue::Scalar(ScalarValue::Utf8(Some(name)) | ScalarValue::Utf8View(Some(name)))
                    if name.contains("FixedSize") =>
                {
                    Some(size_in(name).saturating_mul(rows as u128))
                }
                _ => None,
            },
        }
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<arrow::datatypes::FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.inner.is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        // One value, where all arguments are.
        let one = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if one { 1 } else { args.number_rows };
        match self.grows.bytes(&args.args, rows) {
            Some(bytes) if bytes > BYTES_MAX => {
                let what = format!("the result of {} would have {bytes} bytes, more than {BYTES_MAX}", self.name());
                Err(DataFusionError::External(Box::new(DataError::new("54000", what))))
            }
            _ => self.inner.invoke_with_args(args),
        }
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
