//! Functions whose result may be far larger than what they are given: it is counted before it is made.
//!
//! Values of functions are in no memory pool. `repeat('x', 1000000000)` would be made at once, while the statement is planned, and memory that
//! the system has not ends the whole process.

use crate::data::DataError;
use arrow::array::{Array, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use datafusion::common::DataFusionError;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::prelude::SessionContext;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that one call may return for one batch of rows.
const BYTES_MAX: u128 = 256 << 20;

/// Bytes that one call may return for all rows, whose arguments are constants.
const CONSTANT_CALL_BYTES_MAX: u128 = 64 << 20;

/// The same of all calls of a statement. A statement is planned up to three times.
const CONSTANTS_BYTES_MAX: usize = 256 << 20;

/// Steps that one comparison of two texts may take: one for each character of the one and each of the other.
const STEPS_MAX: u128 = 16 << 20;

/// Bytes that one list may have.
const LIST_BYTES_MAX: u128 = 1 << 20;

/// Bytes that a constant may have that is copied for each of many rows.
const CONSTANT_BYTES_MAX: usize = 64 << 10;

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
    /// Nothing, but its time does.
    Compared,
}

const FUNCTIONS: [(&str, Grows); 11] = [
    ("levenshtein", Grows::Compared),
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

fn too_large(what: &str, hint: &str) -> DataFusionError {
    DataFusionError::External(Box::new(DataError::new("54000", what).hint(hint)))
}

/// Bytes that the constants of a session's statement have taken. It travels in the session's configuration, where functions find it; all
/// copies of that count together.
#[derive(Debug, Clone, Default)]
pub(super) struct Constants(Arc<AtomicUsize>);

impl Constants {
    /// A statement begins.
    pub(super) fn begin(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn take(&self, bytes: u128) -> Result<()> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        match before.saturating_add(bytes) <= CONSTANTS_BYTES_MAX {
            true => Ok(()),
            false => {
                let what =
                    format!("the constants of the statement have more than {CONSTANTS_BYTES_MAX} bytes");
                Err(too_large(
                    &what,
                    "Functions of constants are evaluated while it is planned.",
                ))
            }
        }
    }
}

impl ConfigExtension for Constants {
    const PREFIX: &'static str = "corun_constants";
}

impl ExtensionOptions for Constants {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _: &str) -> Result<()> {
        Err(DataFusionError::Configuration(format!("{key} cannot be set")))
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

/// Puts the bounded functions in the place of those that a session has, and refuses large constants.
pub(super) fn install(context: &SessionContext) {
    context.add_optimizer_rule(Arc::new(SmallConstants {}));
    for (name, grows) in FUNCTIONS {
        if let Ok(inner) = context.udf(name) {
            context.register_udf(ScalarUDF::new_from_impl(Bounded { inner, grows }));
        }
    }
}

/// Refuses statements that copy a large constant for each of many rows.
#[derive(Debug)]
struct SmallConstants {}

impl OptimizerRule for SmallConstants {
    fn name(&self) -> &str {
        "small_constants"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let copies = matches!(
            plan,
            LogicalPlan::Projection(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Window(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Unnest(_)
        );
        if copies
            && plan
                .inputs()
                .first()
                .is_some_and(|input| input.max_rows().is_none_or(|rows| rows > 1))
        {
            plan.apply_expressions(|expression| {
                expression.apply(|of| match of {
                    Expr::Literal(value, _) if value.size() > CONSTANT_BYTES_MAX => {
                        let what = format!(
                            "a constant of {} bytes would be copied for each row",
                            value.size()
                        );
                        Err(too_large(&what, "Select it in a statement of its own."))
                    }
                    _ => Ok(TreeNodeRecursion::Continue),
                })
            })?;
        }
        Ok(Transformed::no(plan))
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
    numbers
        .filter_map(|number| number.parse().ok())
        .max()
        .unwrap_or(0)
}

/// Bytes of a result, and of its largest value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Bytes {
    all: u128,
    largest: u128,
}

impl Bytes {
    /// Of rows with so many each; those below 0 have none.
    fn of(rows: usize, each: impl Fn(usize) -> i128) -> Self {
        let rows = (0..rows).map(|row| u128::try_from(each(row)).unwrap_or(0));
        rows.fold(Bytes::default(), |sum, bytes| Bytes {
            all: sum.all.saturating_add(bytes),
            largest: sum.largest.max(bytes),
        })
    }

    fn times(self, factor: u128) -> Self {
        Bytes {
            all: self.all.saturating_mul(factor),
            largest: self.largest.saturating_mul(factor),
        }
    }
}

impl Grows {
    /// Whether values are lists, which are copied whole wherever they stand beside other rows.
    fn makes_lists(self) -> bool {
        matches!(self, Grows::Series | Grows::Filled | Grows::Resized)
    }

    /// Bytes of the result; `None`: the arguments are of no kind that is known.
    fn bytes(self, args: &[ColumnarValue], rows: usize) -> Option<Bytes> {
        match self {
            Grows::Repeated => {
                let (texts, times) = (Numbers::lengths(args.first()?)?, Numbers::values(args.get(1)?)?);
                Some(Bytes::of(rows, |row| texts.at(row) * times.at(row).max(0)))
            }
            Grows::Padded => {
                let characters = Numbers::values(args.get(1)?)?;
                Some(Bytes::of(rows, |row| characters.at(row)).times(4))
            }
            Grows::Series => series(args, rows),
            Grows::Filled => {
                let (each, times) = (bytes_each(args.first()?), Numbers::values(args.get(1)?)?);
                Some(Bytes::of(rows, |row| times.at(row)).times(each))
            }
            Grows::Resized => {
                let (sizes, each) = (Numbers::values(args.get(1)?)?, args.get(2).map_or(8, bytes_each));
                Some(Bytes::of(rows, |row| sizes.at(row)).times(each))
            }
            Grows::Replaced => {
                let (texts, with) = (Numbers::lengths(args.first()?)?, Numbers::lengths(args.get(2)?)?);
                let from = Numbers::lengths(args.get(1)?)?;
                Some(Bytes::of(rows, |row| {
                    // A pattern may find what is shorter than itself, but hardly where this matters.
                    texts.at(row) + texts.at(row) / from.at(row).max(1) * with.at(row)
                }))
            }
            Grows::Compared => {
                let (first, second) = (Numbers::lengths(args.first()?)?, Numbers::lengths(args.get(1)?)?);
                Some(Bytes::of(rows, |row| first.at(row) * second.at(row)))
            }
            // It becomes a cast before it is run.
            Grows::Typed => None,
        }
    }
}

/// Of `range(stop)`, `range(start, stop)` and `range(start, stop, step)`.
fn series(args: &[ColumnarValue], rows: usize) -> Option<Bytes> {
    let first = args.first()?;
    let (start, stop) = match args.get(1) {
        None => (None, Numbers::values(first)?),
        Some(stop) => (Some(Numbers::values(first)?), Numbers::values(stop)?),
    };
    let steps = match args.get(2) {
        None => None,
        Some(argument) => Some(step(argument, &first.data_type())?),
    };
    let values = Bytes::of(rows, |row| {
        let length = stop.at(row) - start.as_ref().map_or(0, |start| start.at(row));
        // A step of 0 the function refuses itself.
        length
            .checked_div(steps.as_ref().map_or(1, |steps| steps.at(row)))
            .unwrap_or(0)
            + 1
    });
    Some(values.times(8))
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
        let one = args
            .args
            .iter()
            .all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if one { 1 } else { args.number_rows };
        let bytes = self.grows.bytes(&args.args, rows).unwrap_or_default();
        if self.grows == Grows::Compared {
            if bytes.largest > STEPS_MAX {
                let what = format!("the texts of {} are too long to be compared", self.name());
                return Err(too_large(&what, "Compare parts of them."));
            }
            return self.inner.invoke_with_args(args);
        }
        let most = if one { CONSTANT_CALL_BYTES_MAX } else { BYTES_MAX };
        if bytes.all > most {
            let what = format!(
                "the result of {} would have {} bytes, more than {most}",
                self.name(),
                bytes.all
            );
            return Err(too_large(&what, "It is made for a batch of rows at a time."));
        }
        if let Some(constants) = args.config_options.extensions.get::<Constants>().filter(|_| one) {
            constants.take(bytes.all)?;
        }
        if self.grows.makes_lists() && bytes.largest > LIST_BYTES_MAX {
            let what = format!(
                "a list of {} would have {} bytes, more than {LIST_BYTES_MAX}",
                self.name(),
                bytes.largest
            );
            return Err(too_large(
                &what,
                "FROM generate_series(...) makes rows of any number, without a list.",
            ));
        }
        self.inner.invoke_with_args(args)
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if let (Grows::Typed, Some(Expr::Literal(of, _))) = (self.grows, args.get(1))
            && let Some(Some(name)) = of.try_as_str()
            && name.contains("FixedSize")
            && size_in(name) > LIST_BYTES_MAX
        {
            let what = format!("a value of {name} would have more than {LIST_BYTES_MAX} bytes");
            return Err(too_large(
                &what,
                "Types without a size take what their values need.",
            ));
        }
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
