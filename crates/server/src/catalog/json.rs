//! Functions that make JSON.

use super::functions::{Call, texts};
use super::typed;
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field};
use datafusion::error::Result;

/// `json_build_object(key, value, ...)`.
pub(super) fn build_object(call: &Call<'_>) -> Result<ArrayRef> {
    let columns = (0..call.columns.len())
        .map(|at| call.text(at))
        .collect::<Result<Vec<_>>>()?;
    let object = |row: usize| {
        let pairs = (0..columns.len() / 2).map(|pair| {
            let (key, at) = (2 * pair, 2 * pair + 1);
            let key = columns[key][row].as_deref().unwrap_or_default();
            let value = columns[at][row].as_deref();
            let value = value.map_or("null".to_owned(), |text| value_of(&call.fields[at], text));
            format!("{} : {value}", string(key))
        });
        Some(format!("{{{}}}", pairs.collect::<Vec<_>>().join(", ")))
    };
    texts((0..call.rows).map(object))
}

/// Numbers, truth values and JSON stand as they are; everything else is a string, `NaN` as well.
fn value_of(field: &Field, text: &str) -> String {
    let stands = match field.data_type() {
        DataType::Boolean => true,
        of if of.is_numeric() => serde_json::from_str::<serde_json::Number>(text).is_ok(),
        _ => typed::is_json(field),
    };
    match stands {
        true => text.to_owned(),
        false => string(text),
    }
}

fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
