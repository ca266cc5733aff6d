//! [`JsonPath`]: PostgreSQL's operators that look into JSON: `->`, `->>`, `#>` and `#>>`.
//!
//! Values are looked for in the JSON's text, and what is found is a part of that text, as PostgreSQL's `json` has it. What it is not: operators
//! that compare or change JSON (`@>`, `?`, `||`, `-`), nor a check of the text.

use super::typed;
use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use corun_wire::values::{FixedOffset, Format, Kind, Type, Value};
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::borrow::Cow;
use std::sync::Arc;

/// Makes calls of the operators.
#[derive(Debug)]
pub(super) struct Operators;

impl ExprPlanner for Operators {
    fn plan_binary_op(&self, of: RawBinaryExpr, _: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let Some(function) = FUNCTIONS.iter().find(|known| known.operator == of.op) else {
            return Ok(PlannerResult::Original(of));
        };
        // A parameter that nothing is known of is a text, as in PostgreSQL.
        let right = match of.right {
            of @ Expr::Placeholder(Placeholder { field: None, .. }) => {
                datafusion::logical_expr::cast(of, DataType::Utf8)
            }
            other => other,
        };
        let call = ScalarUDF::new_from_impl(JsonPath::new(function)).call(vec![of.left, right]);
        Ok(PlannerResult::Planned(call))
    }
}

/// An operator, and the function of PostgreSQL that it calls.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    operator: BinaryOperator,
    name: &'static str,
    /// Whether its right side is a list of keys.
    many: bool,
    as_text: bool,
}

const FUNCTIONS: &[Function] = &[
    Function {
        operator: BinaryOperator::Arrow,
        name: "json_object_field",
        many: false,
        as_text: false,
    },
    Function {
        operator: BinaryOperator::LongArrow,
        name: "json_object_field_text",
        many: false,
        as_text: true,
    },
    Function {
        operator: BinaryOperator::HashArrow,
        name: "json_extract_path",
        many: true,
        as_text: false,
    },
    Function {
        operator: BinaryOperator::HashLongArrow,
        name: "json_extract_path_text",
        many: true,
        as_text: true,
    },
];

/// See [`self`].
#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonPath {
    of: &'static Function,
    signature: Signature,
}

impl JsonPath {
    fn new(of: &'static Function) -> JsonPath {
        JsonPath {
            of,
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for JsonPath {
    fn name(&self) -> &str {
        self.of.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = Field::new(self.of.name, DataType::Utf8, true);
        let from = arguments.arg_fields.first().filter(|field| typed::is_json(field));
        Ok(Arc::new(match (self.of.as_text, from) {
            (true, _) => field,
            // `jsonb` of `jsonb`.
            (false, Some(from)) => field.with_metadata(from.metadata().clone()),
            (false, None) => typed::json_field(field),
        }))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [json, keys] = arrays.as_slice() else {
            return datafusion::common::exec_err!("{} takes two arguments", self.of.name);
        };
        let json = cast(json, &DataType::Utf8)?;
        let keys = keys_of(keys, self.of.many)?;
        let found = json.as_string::<i32>().iter().zip(keys);
        let found = found.map(|(json, keys)| {
            let found = find(json?, &keys?)?;
            match self.of.as_text {
                true => text_of(found),
                false => Some(found.to_owned()),
            }
        });
        let found: StringArray = found.collect();
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}

/// Where to go.
#[derive(Debug, PartialEq)]
enum Key {
    /// A member of an object.
    Name(String),
    /// An element of an array; from its end if it is negative.
    Position(i64),
    /// Either, as the value has it.
    Any(String),
}

/// What the right side says in each row.
fn keys_of(array: &ArrayRef, many: bool) -> Result<Vec<Option<Vec<Key>>>> {
    if many {
        let lists = match array.data_type() {
            DataType::List(_) => {
                let texts = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true)));
                let lists = cast(array, &texts)?;
                let lists = lists.as_list::<i32>().iter().map(|list| {
                    // As in PostgreSQL, a list with a null finds nothing.
                    list?
                        .as_string::<i32>()
                        .iter()
                        .map(|text| Some(Key::Any(text?.to_owned())))
                        .collect()
                });
                return Ok(lists.collect());
            }
            _ => cast(array, &DataType::Utf8)?,
        };
        return lists
            .as_string::<i32>()
            .iter()
            .map(|text| text.map_or(Ok(None), list))
            .collect();
    }
    if array.data_type().is_integer() {
        let numbers = cast(array, &DataType::Int64)?;
        let numbers = numbers.as_primitive::<arrow::datatypes::Int64Type>().iter();
        return Ok(numbers.map(|number| Some(vec![Key::Position(number?)])).collect());
    }
    let texts = cast(array, &DataType::Utf8)?;
    let texts = texts.as_string::<i32>().iter();
    Ok(texts
        .map(|text| Some(vec![Key::Name(text?.to_owned())]))
        .collect())
}

/// `{a,b}`
fn list(text: &str) -> Result<Option<Vec<Key>>> {
    let failed = || DataFusionError::Execution(format!("malformed array literal: \"{text}\""));
    let of = Type::array_of(Kind::Text).ok_or_else(failed)?;
    let value = Value::read(of, Format::Text, text.as_bytes(), &FixedOffset::UTC).map_err(|_| failed())?;
    let Value::Array(array) = value else {
        return Err(failed());
    };
    let key = |element: Option<Value<'_>>| match element {
        Some(Value::Text(text)) => Some(Key::Any(text.into_owned())),
        _ => None,
    };
    Ok(array.elements.into_iter().map(key).collect())
}

fn find<'j>(json: &'j str, keys: &[Key]) -> Option<&'j str> {
    let mut found = json.trim_matches(is_blank);
    for key in keys {
        let is_array = found.starts_with('[');
        found = match key {
            Key::Name(name) | Key::Any(name) if !is_array => member(found, name)?,
            Key::Name(_) => return None,
            Key::Position(at) => element(found, *at)?,
            Key::Any(at) => element(found, at.trim().parse().ok()?)?,
        };
    }
    Some(found)
}

/// A string without its quotes; everything else as it stands. `None`: `null`.
fn text_of(json: &str) -> Option<String> {
    match json {
        "null" => None,
        json if json.starts_with('"') => serde_json::from_str(json).ok(),
        json => Some(json.to_owned()),
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// The value of a name; of the last one if there are several.
fn member<'j>(object: &'j str, name: &str) -> Option<&'j str> {
    let mut scan = Scan::within(object, '{')?;
    let mut found = None;
    while let Some(key) = scan.value() {
        scan.takes(b':')?;
        let value = scan.value()?;
        let key: Cow<'_, str> = match key.strip_prefix('"')?.strip_suffix('"')? {
            plain if !plain.contains('\\') => plain.into(),
            _ => serde_json::from_str::<String>(key).ok()?.into(),
        };
        if key == name {
            found = Some(value);
        }
        if scan.takes(b',').is_none() {
            break;
        }
    }
    found
}

fn element(array: &str, at: i64) -> Option<&str> {
    let mut scan = Scan::within(array, '[')?;
    let mut elements = Vec::new();
    while let Some(value) = scan.value() {
        if at >= 0 && elements.len() as i64 == at {
            return Some(value);
        }
        elements.push(value);
        if scan.takes(b',').is_none() {
            break;
        }
    }
    let at = at.checked_add(i64::try_from(elements.len()).ok()?)?;
    // One that is not negative would have been found.
    (at < elements.len() as i64).then(|| elements.get(usize::try_from(at).ok()?).copied())?
}

/// Reads values one after the other.
struct Scan<'j> {
    text: &'j str,
    at: usize,
}

impl<'j> Scan<'j> {
    fn within(text: &'j str, opens: char) -> Option<Scan<'j>> {
        text.starts_with(opens).then_some(Scan { text, at: 1 })
    }

    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while self.next().is_some_and(|byte| is_blank(byte.into())) {
            self.at += 1;
        }
    }

    fn takes(&mut self, byte: u8) -> Option<()> {
        self.blanks();
        (self.next()? == byte).then(|| self.at += 1)
    }

    /// The value that comes next, whole.
    fn value(&mut self) -> Option<&'j str> {
        self.blanks();
        let (begin, mut depth) = (self.at, 0u32);
        loop {
            match self.next()? {
                b'"' => self.string()?,
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' if depth > 0 => {
                    depth -= 1;
                    self.at += 1;
                }
                // The end of what it is in.
                b'}' | b']' | b',' | b':' if depth == 0 => return None,
                _ if depth > 0 => self.at += 1,
                _ => {
                    let ends = |byte: u8| matches!(byte, b',' | b'}' | b']') || is_blank(byte.into());
                    while self.next().is_some_and(|byte| !ends(byte)) {
                        self.at += 1;
                    }
                }
            }
            if depth == 0 {
                return self.text.get(begin..self.at);
            }
        }
    }

    fn string(&mut self) -> Option<()> {
        self.at += 1;
        loop {
            match self.next()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: &str, key: Key) -> Option<&str> {
        find(json, &[key])
    }

    fn name(name: &str) -> Key {
        Key::Name(name.to_owned())
    }

    #[test]
    fn values_are_parts_of_the_text() {
        let json = r#" {"a" : {"b" : [1, "x,]", {"c":null}]} , "d\"e":-1.50e3, "a2":true,"é":"\u00e9\n"} "#;
        assert_eq!(of(json, name("a")), Some(r#"{"b" : [1, "x,]", {"c":null}]}"#));
        assert_eq!(of(json, name("d\"e")), Some("-1.50e3"));
        assert_eq!(of(json, name("a2")), Some("true"));
        assert_eq!(of(json, name("é")).and_then(text_of), Some("é\n".to_owned()));
        assert_eq!(of(json, name("b")), None);
        assert_eq!(of(json, Key::Position(0)), None);
        assert_eq!(of(r#"{"a":1,"a":2}"#, name("a")), Some("2"));
        let path = ["a", "b", "-1", "c"].map(|key| Key::Any(key.to_owned()));
        assert_eq!(find(json, &path), Some("null"));
        assert_eq!(text_of("null"), None);
    }

    #[test]
    fn elements_are_counted_from_both_ends() {
        let json = r#"[10, [20,21], "x"]"#;
        let at = |at| of(json, Key::Position(at));
        assert_eq!(
            [at(0), at(1), at(2), at(3)],
            [Some("10"), Some("[20,21]"), Some("\"x\""), None]
        );
        assert_eq!([at(-1), at(-3), at(-4)], [Some("\"x\""), Some("10"), None]);
        assert_eq!([at(i64::MIN), at(i64::MAX)], [None, None]);
        assert_eq!(of("[]", Key::Position(0)), None);
        assert_eq!(of("[ ]", Key::Position(-1)), None);
        assert_eq!(of(json, name("0")), None);
    }

    #[test]
    fn damaged_texts_end() {
        for json in [
            "",
            "{",
            "{\"a",
            "{\"a\":",
            "{\"a\\",
            "{\"a\":[",
            "[1,",
            "{,}",
            "[:",
            "{\"a\" 1}",
            "\"x\"",
            "12",
        ] {
            assert_eq!(of(json, name("a")), None, "{json}");
            assert_eq!(of(json, Key::Position(7)), None, "{json}");
        }
    }
}
