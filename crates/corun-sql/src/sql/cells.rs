//! Cells of Arrow columns as text: for tables, CSV and JSON.

use std::fmt::Write;

use anyhow::Result;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// Whether a column's values line up at the right.
pub fn is_numeric(kind: &DataType) -> bool {
    kind.is_numeric()
}

/// Whether a cell is NULL; unlike [`Array::is_null`] also where only the type or a dictionary's value says so.
pub fn is_null(column: &dyn Array, row: usize) -> bool {
    column.is_null(row)
        || match column.data_type() {
            DataType::Null => true,
            DataType::Dictionary(_, _) => {
                let dictionary = column.as_any_dictionary();
                dictionary.values().is_null(dictionary.normalized_keys()[row])
            }
            _ => false,
        }
}

/// Formatters of a batch's columns, in order.
pub fn formatters<'a>(
    batch: &'a RecordBatch,
    options: &'a FormatOptions<'a>,
) -> Result<Vec<ArrayFormatter<'a>>> {
    let columns = batch.columns().iter();
    Ok(columns
        .map(|column| ArrayFormatter::try_new(column.as_ref(), options))
        .collect::<Result<_, _>>()?)
}

/// A cell for a terminal: control characters written as escapes, so that data can neither break the table nor steer
/// the terminal.
pub fn printable(text: String) -> String {
    if !text.chars().any(char::is_control) {
        return text;
    }
    text.chars()
        .fold(String::with_capacity(text.len() + 8), |mut out, c| {
            match c {
                c if c.is_control() => out.extend(c.escape_default()),
                c => out.push(c),
            }
            out
        })
}

/// A CSV cell: quoted where it must be; the empty text is quoted to tell it from NULL.
pub fn csv_cell(out: &mut String, text: &str) {
    if text.is_empty() || text.contains([',', '"', '\n', '\r']) {
        out.push('"');
        out.push_str(&text.replace('"', "\"\""));
        out.push('"');
    } else {
        out.push_str(text);
    }
}

/// Column names made distinct, as a JSON object needs them: the second `k` becomes `k_2`.
pub fn distinct_names(schema: &SchemaRef) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        let mut name = field.name().clone();
        let mut number = 2;
        while names.contains(&name) {
            name = format!("{}_{number}", field.name());
            number += 1;
        }
        names.push(name);
    }
    names
}

/// Text as a JSON string.
pub fn json_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// One cell as a JSON value: numbers and booleans as such, lists and structs nested, everything else as text. Numbers
/// JSON has no name for (NaN and infinities) become null.
pub fn json_cell(out: &mut String, column: &dyn Array, row: usize) -> Result<()> {
    if is_null(column, row) {
        out.push_str("null");
        return Ok(());
    }
    match column.data_type() {
        DataType::List(_) => json_list(out, column.as_list::<i32>().value(row).as_ref())?,
        DataType::LargeList(_) => json_list(out, column.as_list::<i64>().value(row).as_ref())?,
        DataType::FixedSizeList(_, _) => json_list(out, column.as_fixed_size_list().value(row).as_ref())?,
        DataType::Struct(fields) => {
            let columns = column.as_struct();
            out.push('{');
            for (index, field) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                json_text(out, field.name());
                out.push(':');
                json_cell(out, columns.column(index).as_ref(), row)?;
            }
            out.push('}');
        }
        DataType::Dictionary(_, _) => {
            let dictionary = column.as_any_dictionary();
            json_cell(
                out,
                dictionary.values().as_ref(),
                dictionary.normalized_keys()[row],
            )?;
        }
        kind => {
            let options = FormatOptions::default();
            let text = ArrayFormatter::try_new(column, &options)?
                .value(row)
                .try_to_string()?;
            if matches!(kind, DataType::Boolean) || kind.is_numeric() {
                let finite = text
                    .starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == 't' || c == 'f')
                    && !text.ends_with("inf");
                out.push_str(if finite { &text } else { "null" });
            } else {
                json_text(out, &text);
            }
        }
    }
    Ok(())
}

fn json_list(out: &mut String, values: &dyn Array) -> Result<()> {
    out.push('[');
    for row in 0..values.len() {
        if row > 0 {
            out.push(',');
        }
        json_cell(out, values, row)?;
    }
    out.push(']');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float64Array, Int64Array, ListArray,
        StringArray, StructArray,
    };
    use arrow::datatypes::{Field, Int32Type, Schema};
    use std::sync::Arc;

    fn json(column: impl Array) -> Vec<String> {
        (0..column.len())
            .map(|row| {
                let mut out = String::new();
                json_cell(&mut out, &column, row).expect("a value");
                out
            })
            .collect()
    }

    #[test]
    fn json_values_keep_their_kind() {
        assert_eq!(json(Int64Array::from(vec![Some(-3), None])), ["-3", "null"]);
        let floats = Float64Array::from(vec![1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.25]);
        assert_eq!(json(floats), ["1.5", "null", "null", "null", "-0.25"]);
        assert_eq!(json(BooleanArray::from(vec![true, false])), ["true", "false"]);
        let decimals = Decimal128Array::from(vec![1250])
            .with_precision_and_scale(9, 2)
            .expect("fits");
        assert_eq!(json(decimals), ["12.50"]);
        assert_eq!(
            json(StringArray::from(vec!["a\"\\\n\u{1}ü"])),
            ["\"a\\\"\\\\\\n\\u0001ü\""]
        );
    }

    #[test]
    fn json_values_nest() {
        let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(vec![Some(vec![Some(1), None]), None]);
        assert_eq!(json(lists), ["[1,null]", "null"]);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let structs = StructArray::from(vec![(Arc::new(Field::new("n", DataType::Int64, true)), numbers)]);
        assert_eq!(json(structs), ["{\"n\":7}"]);
        let words: DictionaryArray<Int32Type> = ["x", "y"].into_iter().collect();
        assert_eq!(json(words), ["\"x\"", "\"y\""]);
    }

    #[test]
    fn repeated_column_names_are_told_apart() {
        let field = |name: &str| Field::new(name, DataType::Int64, true);
        let schema = Arc::new(Schema::new(vec![
            field("k"),
            field("k"),
            field("k_2"),
            field("k"),
        ]));
        assert_eq!(distinct_names(&schema), ["k", "k_2", "k_2_2", "k_3"]);
    }

    #[test]
    fn csv_cells_are_quoted_where_needed() {
        let cell = |text: &str| {
            let mut out = String::new();
            csv_cell(&mut out, text);
            out
        };
        assert_eq!(cell("plain"), "plain");
        assert_eq!(cell("a,b"), "\"a,b\"");
        assert_eq!(cell("say \"x\""), "\"say \"\"x\"\"\"");
        assert_eq!(cell(""), "\"\"");
    }

    #[test]
    fn terminals_are_safe_from_data() {
        assert_eq!(printable("a\u{1b}[31m\nb".to_owned()), "a\\u{1b}[31m\\nb");
        assert_eq!(printable("ü 漢".to_owned()), "ü 漢");
    }
}
