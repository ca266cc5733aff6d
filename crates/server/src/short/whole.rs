//! [`Whole`]: sums, differences and products of whole numbers, such as `balance + $1`, without an array for each number.
//!
//! Order of calls: [`Whole::of`] when an expression is planned, then [`Whole::value`] for each row. What it is not: all that an expression may
//! be; what is not as simple, or does not fit its type, the expression itself answers.

use super::expression::Input;
use crate::session::operator_of;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

/// See [`self`].
#[derive(Debug, Clone)]
pub(super) struct Whole {
    of: Part,
    width: Width,
}

#[derive(Debug, Clone)]
enum Part {
    Input(Input),
    Constant(Option<i64>),
    Of(Box<(Whole, Operator, Whole)>),
    Cast(Box<Whole>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    Two,
    Four,
    Eight,
}

impl Width {
    fn of(of: &DataType) -> Option<Width> {
        Some(match of {
            DataType::Int16 => Width::Two,
            DataType::Int32 => Width::Four,
            DataType::Int64 => Width::Eight,
            _ => return None,
        })
    }

    fn takes(self, value: i64) -> bool {
        match self {
            Width::Two => i16::try_from(value).is_ok(),
            Width::Four => i32::try_from(value).is_ok(),
            Width::Eight => true,
        }
    }
}

impl Whole {
    /// An expression over these inputs, which are the columns of `schema`; `None`: it is another one.
    pub(super) fn of(of: &dyn PhysicalExpr, inputs: &[Input], schema: &Schema) -> Option<Whole> {
        let width = Width::of(&of.data_type(schema).ok()?)?;
        let part = if let Some(column) = of.downcast_ref::<Column>() {
            Part::Input(*inputs.get(column.index())?)
        } else if let Some(literal) = of.downcast_ref::<Literal>() {
            Part::Constant(whole(literal.value())?)
        } else if let Some(cast) = of.downcast_ref::<CastExpr>() {
            Part::Cast(Box::new(Whole::of(cast.expr().as_ref(), inputs, schema)?))
        } else {
            let (left, operator, right) = operands(of)?;
            let side = |side: &dyn PhysicalExpr| {
                let side = Whole::of(side, inputs, schema)?;
                (side.width == width).then_some(side)
            };
            if !matches!(operator, Operator::Plus | Operator::Minus | Operator::Multiply) {
                return None;
            }
            Part::Of(Box::new((side(left)?, operator, side(right)?)))
        };
        Some(Whole { of: part, width })
    }

    /// Whether it computes anything.
    pub(super) fn is_computed(&self) -> bool {
        matches!(self.of, Part::Of(_) | Part::Cast(_))
    }

    /// Its value; `None`: what an input or a result is does not fit.
    pub(super) fn value(&self, input: &dyn Fn(Input) -> Option<Option<i64>>) -> Option<ScalarValue> {
        let value = self.number(input)?;
        Some(match self.width {
            Width::Two => ScalarValue::Int16(value.map(i16::try_from).transpose().ok()?),
            Width::Four => ScalarValue::Int32(value.map(i32::try_from).transpose().ok()?),
            Width::Eight => ScalarValue::Int64(value),
        })
    }

    fn number(&self, input: &dyn Fn(Input) -> Option<Option<i64>>) -> Option<Option<i64>> {
        let value = match &self.of {
            Part::Input(of) => input(*of)?,
            Part::Constant(value) => *value,
            Part::Cast(of) => of.number(input)?,
            Part::Of(parts) => {
                let (left, operator, right) = parts.as_ref();
                match (left.number(input)?, right.number(input)?) {
                    (Some(left), Some(right)) => Some(match operator {
                        Operator::Plus => left.checked_add(right)?,
                        Operator::Minus => left.checked_sub(right)?,
                        _ => left.checked_mul(right)?,
                    }),
                    _ => None,
                }
            }
        };
        value.is_none_or(|value| self.width.takes(value)).then_some(value)
    }
}

/// An operation and its sides. Where clients write, arithmetic is functions that refuse what is beyond their type.
fn operands(of: &dyn PhysicalExpr) -> Option<(&dyn PhysicalExpr, Operator, &dyn PhysicalExpr)> {
    if let Some(binary) = of.downcast_ref::<BinaryExpr>() {
        return Some((binary.left().as_ref(), *binary.op(), binary.right().as_ref()));
    }
    let call = of.downcast_ref::<ScalarFunctionExpr>()?;
    let [left, right] = call.args() else {
        return None;
    };
    Some((left.as_ref(), operator_of(call.fun())?, right.as_ref()))
}

/// A whole number, or NULL as one; `None`: it is of another type.
pub(super) fn whole(of: &ScalarValue) -> Option<Option<i64>> {
    Some(match of {
        ScalarValue::Int16(value) => value.map(i64::from),
        ScalarValue::Int32(value) => value.map(i64::from),
        ScalarValue::Int64(value) => *value,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;
    use datafusion::physical_expr::expressions::{binary, cast, col, lit};
    use std::sync::Arc;

    #[test]
    fn sums_of_whole_numbers_are_exact_or_left_to_the_expression() {
        let schema = Schema::new(vec![
            Field::new("a", DataType::Int32, true),
            Field::new("b", DataType::Int32, true),
            Field::new("t", DataType::Utf8, true),
        ]);
        let inputs = [Input::Column(5), Input::Parameter(0), Input::Column(6)];
        let column = |name: &str| col(name, &schema).expect("a column");
        let of = |left, operator, right| binary(left, operator, right, &schema).expect("an expression");
        let sum = of(column("a"), Operator::Plus, column("b"));
        let whole = Whole::of(sum.as_ref(), &inputs, &schema).expect("whole");
        let run = |whole: &Whole, a: Option<i64>, b: Option<i64>| {
            whole.value(&|input| match input {
                Input::Column(5) => Some(a),
                Input::Parameter(0) => Some(b),
                _ => None,
            })
        };
        assert_eq!(run(&whole, Some(2), Some(-5)), Some(ScalarValue::Int32(Some(-3))));
        assert_eq!(run(&whole, None, Some(-5)), Some(ScalarValue::Int32(None)));
        assert_eq!(run(&whole, Some(i64::from(i32::MAX)), Some(1)), None);

        let wide = cast(column("a"), &schema, DataType::Int64).expect("a cast");
        let product = of(wide, Operator::Multiply, lit(3_000_000_000_i64));
        let whole = Whole::of(product.as_ref(), &inputs, &schema).expect("whole");
        assert_eq!(
            run(&whole, Some(2), None),
            Some(ScalarValue::Int64(Some(6_000_000_000)))
        );
        let narrow: Arc<dyn PhysicalExpr> = cast(product, &schema, DataType::Int32).expect("a cast");
        let whole = Whole::of(narrow.as_ref(), &inputs, &schema).expect("whole");
        assert_eq!(run(&whole, Some(2), None), None, "it does not fit");

        // As arithmetic is where clients write.
        let call = |sign: Operator| {
            let args = vec![column("a"), column("b")];
            let function = Arc::new(crate::session::function_of(sign));
            ScalarFunctionExpr::try_new(function, args, &schema, Arc::default()).expect("a call")
        };
        let whole = Whole::of(&call(Operator::Minus), &inputs, &schema).expect("whole");
        assert_eq!(run(&whole, Some(2), Some(-5)), Some(ScalarValue::Int32(Some(7))));
        assert_eq!(run(&whole, Some(i64::from(i32::MIN)), Some(1)), None);
        assert!(Whole::of(&call(Operator::Divide), &inputs, &schema).is_none());

        let quotient = of(column("a"), Operator::Divide, column("b"));
        assert!(Whole::of(quotient.as_ref(), &inputs, &schema).is_none());
        assert!(Whole::of(column("t").as_ref(), &inputs, &schema).is_none());
    }
}
