//! Random conditions on random operands: every key for which the condition is true is inside the span.

use corun_model::pooler::ranges::Span;
use corun_pooler::understand::keys::KeyKind;
use proptest::prelude::*;

use super::{Value, plan, span};

/// Numbers in halves, so that some lie between keys; `None` is NULL.
type Number = Option<i32>;

/// How an operand is written.
#[derive(Clone, Copy, Debug)]
enum Form {
    Literal,
    Quoted,
    Cast,
    Negated,
    Text,
    Int2,
    Int4,
    Int8,
    Numeric,
}

#[derive(Clone, Debug)]
struct Operand(Number, Form);

#[derive(Clone, Debug)]
enum Condition {
    /// The operator's name, whether the operand stands on the left, which of the columns that are equal.
    Compare(&'static str, Operand, bool, bool),
    In(Vec<Operand>, bool),
    Any(Vec<Operand>),
    Between(Operand, Operand, &'static str),
    IsNull,
    /// Another column, of which nothing is known.
    Other,
    Not(Box<Condition>),
    And(Vec<Condition>),
    Or(Vec<Condition>),
}

fn operand() -> impl Strategy<Value = Operand> {
    let form = prop::sample::select(vec![
        Form::Literal,
        Form::Quoted,
        Form::Cast,
        Form::Negated,
        Form::Text,
        Form::Int2,
        Form::Int4,
        Form::Int8,
        Form::Numeric,
    ]);
    let number = prop_oneof![
        8 => (-55_i32..56).prop_map(|whole| Some(2 * whole)),
        2 => (-110_i32..112).prop_map(Some),
        1 => Just(None),
    ];
    (number, form).prop_map(|(number, form)| {
        // What only holds integers.
        let integer = matches!(form, Form::Int2 | Form::Int4 | Form::Int8 | Form::Cast);
        Operand(
            number.map(|halves| if integer { halves / 2 * 2 } else { halves }),
            form,
        )
    })
}

fn condition() -> impl Strategy<Value = Condition> {
    let operator = prop::sample::select(vec!["=", "<", "<=", ">", ">=", "<>", "is not distinct from"]);
    let between = prop::sample::select(vec!["between", "not between", "between symmetric"]);
    let leaf = prop_oneof![
        8 => (operator, operand(), any::<bool>(), any::<bool>()).prop_map(|(o, x, l, j)| Condition::Compare(o, x, l, j)),
        2 => (prop::collection::vec(operand(), 1..6), any::<bool>()).prop_map(|(l, n)| Condition::In(l, n)),
        1 => prop::collection::vec(operand(), 1..6).prop_map(Condition::Any),
        2 => (operand(), operand(), between).prop_map(|(a, b, word)| Condition::Between(a, b, word)),
        1 => Just(Condition::IsNull),
        1 => Just(Condition::Other),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            1 => inner.clone().prop_map(|inner| Condition::Not(Box::new(inner))),
            4 => prop::collection::vec(inner.clone(), 2..4).prop_map(Condition::And),
            4 => prop::collection::vec(inner, 2..4).prop_map(Condition::Or),
        ]
    })
}

/// Writes a condition, and collects the parameters.
struct Writer {
    values: Vec<Value>,
    joined: bool,
}

fn decimal(halves: i32) -> String {
    match halves % 2 {
        0 => (halves / 2).to_string(),
        _ => format!("{}{}.5", if halves < 0 { "-" } else { "" }, halves.abs() / 2),
    }
}

fn numeric(halves: i32) -> Vec<u8> {
    let mut digits: Vec<u16> = vec![(halves.unsigned_abs() / 2) as u16];
    if halves % 2 != 0 {
        digits.push(5000);
    }
    let mut out = Vec::new();
    let sign = if halves < 0 { 0x4000 } else { 0_u16 };
    for field in [digits.len() as u16, 0, sign, 1].into_iter().chain(digits) {
        out.extend(field.to_be_bytes());
    }
    out
}

impl Writer {
    fn operand(&mut self, Operand(number, form): &Operand) -> String {
        let number = *number;
        let whole = number.map(|halves| i64::from(halves / 2));
        let (format, bytes) = match form {
            Form::Literal => return number.map_or("null".to_owned(), decimal),
            Form::Quoted => {
                return number.map_or("null".to_owned(), |halves| format!("'{}'", decimal(halves)));
            }
            Form::Cast => {
                return number.map_or("null::int".to_owned(), |halves| match halves % 4 {
                    0 => format!("cast({} as int)", decimal(halves)),
                    _ => format!("'{}'::int8", decimal(halves)),
                });
            }
            Form::Negated => {
                return number.map_or("- null".to_owned(), |halves| format!("- ( {})", decimal(-halves)));
            }
            Form::Text => (0, number.map(|halves| decimal(halves).into_bytes())),
            Form::Int2 => (1, whole.map(|whole| (whole as i16).to_be_bytes().to_vec())),
            Form::Int4 => (1, whole.map(|whole| (whole as i32).to_be_bytes().to_vec())),
            Form::Int8 => (1, whole.map(|whole| whole.to_be_bytes().to_vec())),
            Form::Numeric => (1, number.map(numeric)),
        };
        self.values.push((format, bytes));
        format!("${}", self.values.len())
    }

    fn list(&mut self, list: &[Operand]) -> String {
        list.iter()
            .map(|x| self.operand(x))
            .collect::<Vec<_>>()
            .join(", ")
    }

    fn condition(&mut self, condition: &Condition) -> String {
        match condition {
            Condition::Compare(operator, operand, left, other) => {
                let column = if *other && self.joined { "b.j" } else { "a.k" };
                let operand = self.operand(operand);
                // `5 <> k` and the like; the flip of the words is the same words.
                if *left {
                    format!("{operand} {operator} {column}")
                } else {
                    format!("{column} {operator} {operand}")
                }
            }
            Condition::In(list, not) => {
                format!("a.k {} in ({})", if *not { "not" } else { "" }, self.list(list))
            }
            Condition::Any(list) => format!("a.k = any(array[{}])", self.list(list)),
            Condition::Between(low, high, word) => {
                format!("a.k {word} {} and {}", self.operand(low), self.operand(high))
            }
            Condition::IsNull => "a.k is null".to_owned(),
            Condition::Other => "a.other".to_owned(),
            Condition::Not(inner) => format!("not ({})", self.condition(inner)),
            Condition::And(parts) => self.parts(parts, " and "),
            Condition::Or(parts) => self.parts(parts, " or "),
        }
    }

    fn parts(&mut self, parts: &[Condition], word: &str) -> String {
        let parts: Vec<_> = parts
            .iter()
            .map(|part| format!("({})", self.condition(part)))
            .collect();
        parts.join(word)
    }
}

fn and(values: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    // One that is false decides, whatever is unknown.
    let values: Vec<_> = values.collect();
    if values.contains(&Some(false)) {
        return Some(false);
    }
    (!values.contains(&None)).then_some(true)
}

fn or(values: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    and(values.map(|value| value.map(|value| !value))).map(|value| !value)
}

fn compare(operator: &str, left: Number, right: Number) -> Option<bool> {
    if operator == "is not distinct from" {
        return Some(left == right);
    }
    let (left, right) = (left?, right?);
    Some(match operator {
        "=" => left == right,
        "<>" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        _ => left >= right,
    })
}

/// What a condition is of a row, as SQL has it: `None` is NULL.
fn is(condition: &Condition, key: Number, other: bool) -> Option<bool> {
    match condition {
        Condition::Compare(operator, Operand(number, _), left, _) => {
            if *left {
                compare(operator, *number, key)
            } else {
                compare(operator, key, *number)
            }
        }
        Condition::In(list, not) => {
            or(list.iter().map(|operand| compare("=", key, operand.0))).map(|value| value != *not)
        }
        Condition::Any(list) => or(list.iter().map(|operand| compare("=", key, operand.0))),
        Condition::Between(low, high, word) => {
            let between = |low: Number, high: Number| {
                and([compare(">=", key, low), compare("<=", key, high)].into_iter())
            };
            match *word {
                "between" => between(low.0, high.0),
                "not between" => between(low.0, high.0).map(|value| !value),
                _ => or([between(low.0, high.0), between(high.0, low.0)].into_iter()),
            }
        }
        Condition::IsNull => Some(key.is_none()),
        Condition::Other => Some(other),
        Condition::Not(inner) => is(inner, key, other).map(|value| !value),
        Condition::And(parts) => and(parts.iter().map(|part| is(part, key, other))),
        Condition::Or(parts) => or(parts.iter().map(|part| is(part, key, other))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn no_key_is_lost(condition in condition(), statement in 0..6_usize) {
        let mut writer = Writer { values: Vec::new(), joined: statement >= 3 };
        let written = writer.condition(&condition);
        let text = match statement {
            0 => format!("select * from a where {written}"),
            1 => format!("update s.k as a set k = 1 where {written}"),
            2 => format!("delete from a where {written} /* a.k = 1 */ -- end\n"),
            3 => format!("select * from a, b where a.k = b.j and ({written})"),
            4 => format!("select * from a join b on a.k = b.j where {written}"),
            _ => format!("select e'x' from b join a on b.j = a.k and ({written})"),
        };
        let plan = plan(&text);
        for table in ["k", "a", "b"] {
            let name = if table == "b" { "j" } else { "k" };
            let resolved = plan.as_ref().and_then(|plan| {
                plan.resolve(|_, of, column| (of == table && column == name).then_some(()))
            });
            let Some((column, ())) = resolved else {
                continue;
            };
            let plan = plan.as_ref().expect("was resolved");
            let span = span(plan, column, KeyKind::Integer, &text, &writer.values);
            for key in -60..60 {
                let truth = [false, true].map(|other| is(&condition, Some(2 * key), other));
                prop_assert!(
                    !truth.contains(&Some(true)) || span.contains(i64::from(key)),
                    "{text} with {:?}: {table} {span} without {key}", writer.values
                );
            }
        }
    }

    /// Where only comparisons are written, the span is no wider than its bound of intervals makes it.
    #[test]
    fn no_more_than_needed(list in prop::collection::vec(-50_i32..50, 1..=4), low in -50_i32..50, high in -50_i32..50) {
        let values: Vec<_> = list.iter().map(i32::to_string).collect();
        let text = format!("select * from a where k in ({}) and k >= {low} and k < {high}", values.join(", "));
        let plan = plan(&text).expect("keys");
        let span = span(&plan, 0, KeyKind::Integer, &text, &[]);
        let expected = Span::any_of(list.iter().filter(|k| **k >= low && **k < high).map(|k| i64::from(*k)));
        prop_assert_eq!(span, expected);
    }
}
