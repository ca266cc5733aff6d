//! Types that Arrow has as extensions: casts to `uuid`, `json` and `jsonb` become calls of functions here, whose fields say what they are.

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryBuilder, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use corun_wire::values::normal_inet;
use datafusion::common::exec_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast;
use std::collections::HashMap;
use std::sync::Arc;

/// Arrow's key of an extension's name.
const NAME: &str = "ARROW:extension:name";
/// Tells `jsonb` from `json`, for which Arrow has one extension.
pub(super) const JSONB: &str = "corun:jsonb";

/// A type by its number and its limits (`1043 14`: `varchar(10)`), which Arrow's own type does not tell.
const DECLARED: &str = "corun:type";

/// The metadata of a field of a PostgreSQL type that is none of Arrow's.
pub(crate) fn metadata_of(oid: u32, modifier: i32) -> HashMap<String, String> {
    let mut metadata = HashMap::new();
    let mut put = |key: &str, value: String| drop(metadata.insert(key.to_owned(), value));
    match oid {
        2950 => put(NAME, UUID.to_owned()),
        114 => put(NAME, JSON.to_owned()),
        3802 => {
            put(NAME, JSON.to_owned());
            put(JSONB, String::new());
        }
        _ => put(DECLARED, format!("{oid} {modifier}")),
    }
    metadata
}

/// Number and limits of a field's type, where its metadata says them.
pub(super) fn declared(field: &Field) -> Option<(i32, i32)> {
    let (oid, modifier) = field.metadata().get(DECLARED)?.split_once(' ')?;
    Some((oid.parse().ok()?, modifier.parse().ok()?))
}

/// The name of a field's extension.
pub(super) fn extension(field: &Field) -> Option<&str> {
    field.metadata().get(NAME).map(String::as_str)
}

const JSON: &str = "arrow.json";
const UUID: &str = "arrow.uuid";

/// Whether a field is of JSON.
pub(super) fn is_json(field: &Field) -> bool {
    extension(field) == Some(JSON)
}

/// The same field, of JSON.
pub(super) fn json_field(field: Field) -> Field {
    field.with_metadata(HashMap::from([(NAME.to_owned(), JSON.to_owned())]))
}

/// Functions, and the types that they cast to.
const FUNCTIONS: &[(&str, &str, u32)] = &[
    ("corun_uuid", "uuid", 2950),
    ("corun_json", "json", 114),
    ("corun_jsonb", "jsonb", 3802),
    ("corun_inet", "inet", 869),
];

/// The function that stands for a cast; `None`: DataFusion casts.
pub(super) fn cast_to(of: &ast::DataType) -> Option<&'static str> {
    let name = match of {
        ast::DataType::Uuid | ast::DataType::JSON | ast::DataType::JSONB => of.to_string(),
        ast::DataType::Custom(name, limits) if limits.is_empty() => name.to_string(),
        _ => return None,
    };
    let known = |(_, known, _): &&(&str, &str, u32)| name.eq_ignore_ascii_case(known);
    FUNCTIONS.iter().find(known).map(|function| function.0)
}

/// What a function here casts, and the number of the type to which.
pub(crate) fn cast_by(function: &ast::Function) -> Option<(&ast::Expr, u32)> {
    let name = function.name.0.last()?.as_ident()?;
    let (.., oid) = FUNCTIONS.iter().find(|(known, ..)| *known == name.value)?;
    let ast::FunctionArguments::List(arguments) = &function.args else {
        return None;
    };
    match arguments.args.as_slice() {
        [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(of))] => Some((of, *oid)),
        _ => None,
    }
}

/// Writes a UUID, which is no text for DataFusion.
pub(super) const UUID_TEXT: &str = "corun_uuid_text";

/// The address of an `inet` without its network.
const HOST: &str = "host";

/// The functions.
pub(super) fn all() -> impl Iterator<Item = ScalarUDF> {
    let names = FUNCTIONS.iter().map(|(name, ..)| *name).chain([UUID_TEXT, HOST]);
    names.map(|name| {
        ScalarUDF::new_from_impl(Typed {
            name,
            signature: Signature::any(1, Volatility::Immutable),
        })
    })
}

/// The function that makes UUIDs of texts.
pub(super) fn uuid_cast() -> ScalarUDF {
    ScalarUDF::new_from_impl(Typed {
        name: "corun_uuid",
        signature: Signature::any(1, Volatility::Immutable),
    })
}

/// Whether a field is of UUIDs.
pub(super) fn is_uuid(field: &Field) -> bool {
    matches!(field.data_type(), DataType::FixedSizeBinary(16)) && extension(field) == Some(UUID)
}

/// The bytes of a UUID's text.
///
/// # Errors
/// A text that is none.
pub(super) fn uuid_bytes(text: &str) -> Result<[u8; 16]> {
    uuid(text).ok_or_else(|| invalid("uuid", text))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Typed {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Typed {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.name {
            "corun_uuid" => DataType::FixedSizeBinary(16),
            _ => DataType::Utf8,
        })
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let of = self.return_type(&[])?;
        if [UUID_TEXT, HOST].contains(&self.name) {
            return Ok(Arc::new(Field::new(self.name, of, true)));
        }
        let known = FUNCTIONS.iter().find(|(name, ..)| *name == self.name);
        let metadata = known.map_or_else(HashMap::new, |(.., oid)| metadata_of(*oid, -1));
        let nullable = arguments.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(
            Field::new(self.name, of, nullable).with_metadata(metadata),
        ))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = arguments.args.as_slice() else {
            return exec_err!("{} takes one argument", self.name);
        };
        let array = value.to_array(arguments.number_rows)?;
        let made = match self.name {
            "corun_uuid" => uuids(&array)?,
            UUID_TEXT => uuid_texts(&array)?,
            "corun_inet" => inets(&array)?,
            HOST => hosts(&array)?,
            _ => json(&array)?,
        };
        Ok(ColumnarValue::Array(made))
    }
}

/// What PostgreSQL says of a text that is no value of a type.
fn invalid(of: &str, text: &str) -> DataFusionError {
    let what = format!("invalid input syntax for type {of}: \"{text}\"");
    DataFusionError::ArrowError(Box::new(ArrowError::ParseError(what)), None)
}

fn uuids(array: &ArrayRef) -> Result<ArrayRef> {
    if matches!(array.data_type(), DataType::FixedSizeBinary(16)) {
        return Ok(Arc::clone(array));
    }
    let texts = cast(array, &DataType::Utf8)?;
    let mut made = FixedSizeBinaryBuilder::with_capacity(texts.len(), 16);
    for text in texts.as_string::<i32>() {
        match text {
            None => made.append_null(),
            Some(text) => made.append_value(uuid(text).ok_or_else(|| invalid("uuid", text))?)?,
        }
    }
    Ok(Arc::new(made.finish()))
}

fn uuid_texts(array: &ArrayRef) -> Result<ArrayRef> {
    let bytes = uuids(array)?;
    let text = |bytes: &[u8]| {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        parts.join("-")
    };
    let texts = bytes.as_fixed_size_binary().iter().map(|bytes| bytes.map(text));
    Ok(Arc::new(texts.collect::<arrow::array::StringArray>()))
}

fn inets(array: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast(array, &DataType::Utf8)?;
    let mut made = StringBuilder::new();
    for text in texts.as_string::<i32>() {
        let read = |text: &str| normal_inet(text.trim()).ok_or_else(|| invalid("inet", text));
        made.append_option(text.map(read).transpose()?);
    }
    Ok(Arc::new(made.finish()))
}

fn hosts(array: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast(array, &DataType::Utf8)?;
    let host = |text: &str| text.split('/').next().unwrap_or_default().to_owned();
    let hosts = texts.as_string::<i32>().iter().map(|text| text.map(host));
    Ok(Arc::new(hosts.collect::<arrow::array::StringArray>()))
}

/// With hyphens wherever, and maybe in braces, as PostgreSQL reads it.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let text = text.trim();
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    let digits: Vec<u32> = inner
        .unwrap_or(text)
        .chars()
        .filter(|c| *c != '-')
        .map(|c| c.to_digit(16))
        .collect::<Option<_>>()?;
    let bytes = digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8);
    (digits.len() == 32).then(|| bytes.collect::<Vec<u8>>().try_into().ok())?
}

fn json(array: &ArrayRef) -> Result<ArrayRef> {
    let texts = cast(array, &DataType::Utf8)?;
    let mut made = StringBuilder::new();
    for text in texts.as_string::<i32>() {
        if let Some(text) = text
            && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err()
        {
            return Err(invalid("json", text));
        }
        made.append_option(text);
    }
    Ok(Arc::new(made.finish()))
}

#[cfg(test)]
mod tests {
    use super::uuid;

    #[test]
    fn uuids_are_read_as_postgresql_reads_them() {
        let of = uuid("12345678-1234-5678-1234-567812345678");
        assert_eq!(of.map(|bytes| bytes[0]), Some(0x12));
        assert_eq!(uuid("{12345678123456781234567812345678}"), of);
        assert_eq!(uuid("1234"), None);
        assert_eq!(uuid("g2345678-1234-5678-1234-567812345678"), None);
    }
}
