//! Functions that clients ask the system with: what the session is, what stands behind a number, how something would be written.

use super::facts::SessionFacts;
use super::oids::{self, Object};
use super::quoting::quoted;
use super::{attributes, json, regclass, typed};
use crate::data::StoreView;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, Int64Array, ListArray, ListBuilder, StringArray,
    StringBuilder, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Int32Type};
use datafusion::catalog::CatalogProvider;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What the functions know.
pub(crate) struct Context {
    pub(crate) catalog: String,
    /// What is in that catalog.
    pub(crate) tables: Arc<dyn CatalogProvider>,
    pub(crate) facts: Arc<dyn SessionFacts>,
    /// Of the store that the catalog is, if it is one and the session writes to it.
    pub(crate) view: Option<Arc<StoreView>>,
}

/// A call: its arguments as columns.
pub(super) struct Call<'a> {
    name: &'static str,
    pub(super) context: &'a Context,
    pub(super) columns: Vec<ArrayRef>,
    /// What is known of these.
    pub(super) fields: Vec<FieldRef>,
    pub(super) rows: usize,
}

impl Call<'_> {
    pub(super) fn text(&self, at: usize) -> Result<Vec<Option<String>>> {
        let Some(column) = self.columns.get(at) else {
            return Ok(vec![None; self.rows]);
        };
        let texts = cast(column, &DataType::Utf8)?;
        Ok(texts
            .as_string::<i32>()
            .iter()
            .map(|text| text.map(str::to_owned))
            .collect())
    }

    pub(super) fn number(&self, at: usize) -> Result<Vec<Option<i32>>> {
        let Some(column) = self.columns.get(at) else {
            return Ok(vec![None; self.rows]);
        };
        let numbers = cast(column, &DataType::Int32)?;
        Ok(numbers.as_primitive::<Int32Type>().iter().collect())
    }

    pub(super) fn object(&self, number: Option<i32>) -> Option<Object> {
        oids::object(&self.context.catalog, number?)
    }

    /// One text for every row.
    fn same(&self, text: Option<&str>) -> Result<ArrayRef> {
        Ok(Arc::new(StringArray::from(vec![text; self.rows])))
    }
}

pub(super) fn texts(of: impl Iterator<Item = Option<String>>) -> Result<ArrayRef> {
    Ok(Arc::new(of.collect::<StringArray>()))
}

type Run = fn(&Call<'_>) -> Result<ArrayRef>;

/// What a function returns.
#[derive(Debug, Clone, Copy)]
enum Returns {
    Text,
    /// A text that is JSON.
    Json,
    Bool,
    Int4,
    Int8,
    Texts,
    Ints,
    Positions,
}

impl Returns {
    fn data_type(self) -> DataType {
        match self {
            Returns::Text | Returns::Json => DataType::Utf8,
            Returns::Bool => DataType::Boolean,
            Returns::Int4 => DataType::Int32,
            Returns::Int8 => DataType::Int64,
            Returns::Texts => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
            Returns::Ints => DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true))),
            Returns::Positions => DataType::List(Arc::new(Field::new_list_field(
                DataType::Struct(positions()),
                true,
            ))),
        }
    }
}

/// A value of an array and its number, as `information_schema._pg_expandarray` returns them.
fn positions() -> Fields {
    Fields::from(vec![
        Field::new("x", DataType::Int32, true),
        Field::new("n", DataType::Int32, true),
    ])
}

const FUNCTIONS: &[(&str, Returns, Run)] = &[
    ("current_database", Returns::Text, |call| {
        call.same(Some(&call.context.facts.database()))
    }),
    ("current_schema", Returns::Text, |call| {
        call.same(call.context.facts.search_path().first().map(String::as_str))
    }),
    ("current_schemas", Returns::Texts, current_schemas),
    ("session_user", Returns::Text, |call| {
        call.same(Some(&call.context.facts.session_user()))
    }),
    ("current_user", Returns::Text, |call| {
        call.same(Some(&call.context.facts.current_user()))
    }),
    ("version", Returns::Text, |call| {
        call.same(Some(&call.context.facts.version()))
    }),
    ("pg_backend_pid", Returns::Int4, |call| {
        Ok(Arc::new(Int32Array::from(vec![
            call.context.facts.pid();
            call.rows
        ])))
    }),
    ("current_setting", Returns::Text, current_setting),
    ("set_config", Returns::Text, set_config),
    ("pg_get_indexdef", Returns::Text, pg_get_indexdef),
    ("pg_get_constraintdef", Returns::Text, pg_get_constraintdef),
    ("pg_get_viewdef", Returns::Text, |call| call.same(None)),
    ("pg_get_expr", Returns::Text, |call| {
        texts(call.text(0)?.into_iter())
    }),
    ("attribute_default", Returns::Text, attributes::default),
    ("attribute_names", Returns::Texts, attributes::names),
    ("referenced_column", Returns::Text, attributes::referenced),
    ("identity_options", Returns::Json, attributes::identity),
    ("format_type", Returns::Text, |call| {
        let modifiers = call.number(1)?;
        let types = call.number(0)?.into_iter().zip(modifiers);
        texts(types.map(|(of, modifier)| Some(super::types::format_type(of?, modifier))))
    }),
    ("pg_get_userbyid", Returns::Text, pg_get_userbyid),
    ("obj_description", Returns::Text, |call| {
        let objects = call.number(0)?.into_iter();
        texts(objects.map(|number| call.object(number)?.comment))
    }),
    ("col_description", Returns::Text, attributes::description),
    ("shobj_description", Returns::Text, |call| call.same(None)),
    ("pg_get_function_result", Returns::Text, |call| {
        call.same(Some(""))
    }),
    ("pg_get_function_arguments", Returns::Text, |call| {
        call.same(Some(""))
    }),
    ("pg_get_function_identity_arguments", Returns::Text, |call| {
        call.same(Some(""))
    }),
    ("pg_get_functiondef", Returns::Text, |call| call.same(None)),
    ("pg_get_triggerdef", Returns::Text, |call| call.same(None)),
    ("pg_get_ruledef", Returns::Text, |call| call.same(None)),
    ("pg_get_partkeydef", Returns::Text, |call| call.same(None)),
    ("pg_get_serial_sequence", Returns::Text, |call| call.same(None)),
    ("pg_get_statisticsobjdef_columns", Returns::Text, |call| {
        call.same(None)
    }),
    ("pg_tablespace_location", Returns::Text, |call| {
        call.same(Some(""))
    }),
    ("pg_size_pretty", Returns::Text, pg_size_pretty),
    ("quote_literal", Returns::Text, quote_literal),
    // `LIKE ... ESCAPE` of a pattern that is no literal.
    ("like_pattern", Returns::Text, |call| {
        let patterns = call.text(0)?.into_iter().zip(call.text(1)?);
        texts(patterns.map(|(pattern, escape)| {
            let escape = escape?.chars().next()?;
            Some(super::rewrite::backslash(&pattern?, escape))
        }))
    }),
    // There are no such locks.
    ("pg_advisory_unlock_all", Returns::Text, |call| {
        call.same(Some(""))
    }),
    ("pg_client_encoding", Returns::Text, |call| {
        call.same(Some("UTF8"))
    }),
    ("pg_encoding_to_char", Returns::Text, |call| {
        texts(
            call.number(0)?
                .into_iter()
                .map(|number| Some(if number? == 6 { "UTF8" } else { "" }.to_owned())),
        )
    }),
    ("regclass_name", Returns::Text, regclass::name),
    ("regnamespace_name", Returns::Text, |call| {
        let names = call.number(0)?.into_iter();
        texts(names.map(|number| call.object(number).map(|object| quoted(&object.name))))
    }),
    ("to_regclass", Returns::Int4, |call| regclass::number(call, false)),
    ("regclass_of", Returns::Int4, |call| regclass::number(call, true)),
    ("pg_table_is_visible", Returns::Bool, regclass::is_visible),
    ("pg_type_is_visible", Returns::Bool, |call| all(call, true)),
    ("pg_function_is_visible", Returns::Bool, |call| all(call, true)),
    ("pg_operator_is_visible", Returns::Bool, |call| all(call, true)),
    ("pg_collation_is_visible", Returns::Bool, |call| all(call, true)),
    ("pg_opclass_is_visible", Returns::Bool, |call| all(call, true)),
    ("pg_opfamily_is_visible", Returns::Bool, |call| all(call, true)),
    ("pg_conversion_is_visible", Returns::Bool, |call| all(call, true)),
    ("pg_statistics_obj_is_visible", Returns::Bool, |call| {
        all(call, true)
    }),
    ("pg_ts_config_is_visible", Returns::Bool, |call| all(call, true)),
    ("pg_ts_dict_is_visible", Returns::Bool, |call| all(call, true)),
    ("pg_ts_parser_is_visible", Returns::Bool, |call| all(call, true)),
    ("pg_ts_template_is_visible", Returns::Bool, |call| all(call, true)),
    ("pg_relation_is_publishable", Returns::Bool, |call| {
        all(call, false)
    }),
    ("pg_is_in_recovery", Returns::Bool, |call| all(call, false)),
    ("pg_is_other_temp_schema", Returns::Bool, |call| all(call, false)),
    ("row_security_active", Returns::Bool, |call| all(call, false)),
    ("pg_has_role", Returns::Bool, |call| has_privilege(call, "role")),
    ("has_table_privilege", Returns::Bool, |call| {
        has_privilege(call, "table")
    }),
    ("has_any_column_privilege", Returns::Bool, |call| {
        has_privilege(call, "table")
    }),
    ("has_schema_privilege", Returns::Bool, |call| {
        has_privilege(call, "schema")
    }),
    ("has_database_privilege", Returns::Bool, |call| {
        has_privilege(call, "database")
    }),
    ("has_function_privilege", Returns::Bool, |call| {
        has_privilege(call, "function")
    }),
    ("has_sequence_privilege", Returns::Bool, |call| {
        has_privilege(call, "sequence")
    }),
    ("has_type_privilege", Returns::Bool, |call| {
        has_privilege(call, "type")
    }),
    ("has_language_privilege", Returns::Bool, |call| {
        has_privilege(call, "language")
    }),
    ("has_tablespace_privilege", Returns::Bool, |call| {
        has_privilege(call, "tablespace")
    }),
    ("pg_my_temp_schema", Returns::Int4, |call| {
        Ok(Arc::new(Int32Array::from(vec![0; call.rows])))
    }),
    ("pg_relation_size", Returns::Int8, bytes_of),
    ("pg_total_relation_size", Returns::Int8, bytes_of),
    ("pg_table_size", Returns::Int8, bytes_of),
    ("pg_indexes_size", Returns::Int8, zeros),
    ("pg_database_size", Returns::Int8, zeros),
    ("pg_tablespace_size", Returns::Int8, zeros),
    ("pg_stat_get_numscans", Returns::Int8, zeros),
    ("inet_server_addr", Returns::Text, |call| call.same(None)),
    ("inet_client_addr", Returns::Text, |call| call.same(None)),
    ("_pg_expandarray", Returns::Positions, expand_array),
    ("generate_subscripts", Returns::Ints, subscripts),
    ("no_texts", Returns::Texts, |call| {
        Ok(arrow::array::new_null_array(
            &Returns::Texts.data_type(),
            call.rows,
        ))
    }),
    ("json_build_object", Returns::Json, json::build_object),
    ("to_regtype", Returns::Int4, |call| {
        let names = call.text(0)?.into_iter();
        let numbers = names.map(|name| super::types::number(&name?.to_ascii_lowercase()));
        Ok(Arc::new(numbers.collect::<Int32Array>()))
    }),
];

/// Functions whose answer changes within a session, or that change something.
const VOLATILE: &[&str] = &["current_setting", "set_config"];

/// All functions for one session.
pub(crate) fn all_of(context: &Arc<Context>) -> impl Iterator<Item = ScalarUDF> {
    let context = Arc::clone(context);
    FUNCTIONS.iter().map(move |(name, returns, run)| {
        let volatility = match VOLATILE.contains(name) {
            true => Volatility::Volatile,
            false => Volatility::Stable,
        };
        let any = TypeSignature::OneOf(vec![TypeSignature::Nullary, TypeSignature::VariadicAny]);
        ScalarUDF::new_from_impl(Function {
            name,
            returns: *returns,
            run: *run,
            signature: Signature::new(any, volatility),
            context: Arc::clone(&context),
        })
    })
}

struct Function {
    name: &'static str,
    returns: Returns,
    run: Run,
    signature: Signature,
    context: Arc<Context>,
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && Arc::ptr_eq(&self.context, &other.context)
    }
}

impl Eq for Function {}

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.data_type())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = Field::new(self.name, self.returns.data_type(), true);
        Ok(Arc::new(match self.returns {
            Returns::Json => typed::json_field(field),
            _ => field,
        }))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let columns = arguments
            .args
            .iter()
            .map(|column| column.to_array(rows))
            .collect::<Result<_>>()?;
        let call = Call {
            name: self.name,
            context: &self.context,
            columns,
            fields: arguments.arg_fields,
            rows,
        };
        Ok(ColumnarValue::Array((self.run)(&call)?))
    }
}

fn all(call: &Call<'_>, value: bool) -> Result<ArrayRef> {
    Ok(Arc::new(BooleanArray::from(vec![value; call.rows])))
}

fn zeros(call: &Call<'_>) -> Result<ArrayRef> {
    Ok(Arc::new(Int64Array::from(vec![0; call.rows])))
}

fn current_schemas(call: &Call<'_>) -> Result<ArrayRef> {
    let mut lists = ListBuilder::new(StringBuilder::new());
    let implicit = match call.columns.first() {
        Some(column) => cast(column, &DataType::Boolean)?,
        None => return exec_err!("current_schemas needs one argument"),
    };
    for with_system in implicit.as_boolean() {
        let path = call.context.facts.search_path().into_iter().map(Some);
        let system = with_system
            .unwrap_or(false)
            .then(|| Some("pg_catalog".to_owned()));
        lists.append_value(system.into_iter().chain(path));
    }
    Ok(Arc::new(lists.finish()))
}

fn setting(context: &Context, name: &str) -> Option<String> {
    let constant = || {
        let all = super::settings::settings(&*context.facts).into_iter();
        all.filter(|setting| setting.name.eq_ignore_ascii_case(name))
            .map(|setting| setting.value)
            .next()
    };
    context.facts.setting(name).or_else(constant)
}

fn current_setting(call: &Call<'_>) -> Result<ArrayRef> {
    let missing_is_null = match call.columns.get(1) {
        Some(column) => cast(column, &DataType::Boolean)?
            .as_boolean()
            .iter()
            .any(|value| value == Some(true)),
        None => false,
    };
    let mut values = Vec::new();
    for name in call.text(0)? {
        let Some(name) = name else {
            values.push(None);
            continue;
        };
        match setting(call.context, &name) {
            None if !missing_is_null => return exec_err!("unrecognized configuration parameter \"{name}\""),
            value => values.push(value),
        }
    }
    texts(values.into_iter())
}

fn set_config(call: &Call<'_>) -> Result<ArrayRef> {
    let transaction_only = match call.columns.get(2) {
        Some(column) => cast(column, &DataType::Boolean)?
            .as_boolean()
            .iter()
            .any(|value| value == Some(true)),
        None => return exec_err!("set_config needs three arguments"),
    };
    let mut values = Vec::new();
    for (name, value) in call.text(0)?.into_iter().zip(call.text(1)?) {
        let (Some(name), Some(value)) = (name, value) else {
            values.push(None);
            continue;
        };
        match call.context.facts.set(&name, &value, transaction_only) {
            Ok(value) => values.push(Some(value)),
            Err(error) => return exec_err!("{error}"),
        }
    }
    texts(values.into_iter())
}

/// Bytes of a table's rows; of what is no table of a store none.
fn bytes_of(call: &Call<'_>) -> Result<ArrayRef> {
    let numbers = match call.columns.first() {
        Some(column) if column.data_type().is_integer() => call.number(0)?,
        Some(_) => {
            let numbers = regclass::number(call, true)?;
            numbers.as_primitive::<Int32Type>().iter().collect()
        }
        None => return exec_err!("{} needs one argument", call.name),
    };
    let bytes = numbers
        .into_iter()
        .map(|number| Some(call.object(Some(number?)).map_or(0, |object| object.bytes)));
    Ok(Arc::new(bytes.collect::<Int64Array>()))
}

/// `pg_get_constraintdef(number[, pretty])`.
fn pg_get_constraintdef(call: &Call<'_>) -> Result<ArrayRef> {
    let pretty = call.text(1)?;
    let objects = call.number(0)?.into_iter().map(|number| call.object(number));
    texts(objects.zip(pretty).map(|(object, pretty)| {
        let object = object.filter(|object| object.kind == "constraint")?;
        let pretty = pretty.is_some_and(|pretty| pretty.starts_with(['t', 'T', 'y', '1']));
        Some(object.pretty.filter(|_| pretty).unwrap_or(object.definition))
    }))
}

/// The whole text of an index, or the name of one of its columns.
fn pg_get_indexdef(call: &Call<'_>) -> Result<ArrayRef> {
    let columns = call.number(1)?;
    let objects = call.number(0)?.into_iter().map(|number| call.object(number));
    texts(objects.zip(columns).map(|(object, column)| {
        let object = object.filter(|object| object.kind == "index")?;
        match usize::try_from(column.unwrap_or(0)).unwrap_or(0) {
            0 => Some(object.definition),
            at => object.columns.get(at - 1).map(|name| quoted(name)),
        }
    }))
}

fn pg_get_userbyid(call: &Call<'_>) -> Result<ArrayRef> {
    let roles = call.context.facts.roles();
    let name = |number: i32| match roles.iter().find(|role| role.oid == number) {
        Some(role) => role.name.clone(),
        None if number == super::tables::OWNER => "postgres".to_owned(),
        None => format!("unknown (OID={number})"),
    };
    texts(call.number(0)?.into_iter().map(|number| number.map(name)))
}

fn pg_size_pretty(call: &Call<'_>) -> Result<ArrayRef> {
    let pretty = |bytes: i64| {
        let units = ["bytes", "kB", "MB", "GB", "TB"];
        let mut size = bytes;
        let mut unit = 0;
        while size.abs() >= 10 << 10 && unit + 1 < units.len() {
            size = (size + 512) >> 10;
            unit += 1;
        }
        format!("{size} {}", units[unit])
    };
    let Some(column) = call.columns.first() else {
        return exec_err!("pg_size_pretty needs one argument");
    };
    let bytes = cast(column, &DataType::Int64)?;
    texts(
        bytes
            .as_primitive::<arrow::datatypes::Int64Type>()
            .iter()
            .map(|bytes| bytes.map(pretty)),
    )
}

fn quote_literal(call: &Call<'_>) -> Result<ArrayRef> {
    let quoted = |text: String| {
        let escape = if text.contains('\\') { "E" } else { "" };
        format!("{escape}'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
    };
    texts(call.text(0)?.into_iter().map(|text| text.map(quoted)))
}

/// `has_x_privilege([user,] object, [column,] privilege)`: users and objects by name or number.
fn has_privilege(call: &Call<'_>, kind: &str) -> Result<ArrayRef> {
    let count = call.columns.len();
    let (user, object, privilege) = match count {
        2 => (None, 0, 1),
        3 => (Some(0), 1, 2),
        _ => return exec_err!("{} takes two or three arguments", call.name),
    };
    let name = |at: usize| -> Result<Vec<Option<String>>> {
        if call.columns[at].data_type().is_integer() {
            let numbers = call.number(at)?.into_iter();
            let names = numbers.map(|number| {
                call.object(number).map(|object| match object.schema.as_str() {
                    "" => object.name,
                    schema => format!("{schema}.{}", object.name),
                })
            });
            return Ok(names.collect());
        }
        call.text(at)
    };
    let users = match user {
        Some(at) => name(at)?,
        None => vec![None; call.rows],
    };
    let pairs = users.into_iter().zip(name(object)?).zip(call.text(privilege)?);
    let facts = &call.context.facts;
    let allowed = pairs.map(|((user, object), privilege)| {
        Some(facts.has_privilege(user.as_deref(), kind, &object?, &privilege?))
    });
    Ok(Arc::new(allowed.collect::<BooleanArray>()))
}

fn expand_array(call: &Call<'_>) -> Result<ArrayRef> {
    let Some(column) = call.columns.first() else {
        return exec_err!("_pg_expandarray needs one argument");
    };
    let of_ints = DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
    let lists = cast(column, &of_ints)?;
    let lists = lists.as_list::<i32>();
    let (mut values, mut numbers) = (Vec::new(), Vec::new());
    let mut lengths = Vec::new();
    for list in lists.iter() {
        let before = values.len();
        if let Some(list) = list {
            values.extend(list.as_primitive::<Int32Type>().iter());
        }
        let length = values.len() - before;
        numbers.extend((1..=length as i32).map(Some));
        lengths.push(length);
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(values)),
        Arc::new(Int32Array::from(numbers)),
    ];
    let items = StructArray::try_new(positions(), columns, None)?;
    let item = Arc::new(Field::new_list_field(DataType::Struct(positions()), true));
    let nulls: Option<NullBuffer> = lists.nulls().cloned();
    Ok(Arc::new(ListArray::try_new(
        item,
        OffsetBuffer::from_lengths(lengths),
        Arc::new(items),
        nulls,
    )?))
}

/// The positions of an array's values, from 1.
fn subscripts(call: &Call<'_>) -> Result<ArrayRef> {
    let Some(column) = call.columns.first() else {
        return exec_err!("generate_subscripts needs an array");
    };
    let of_ints = DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
    let lists = cast(column, &of_ints)?;
    let lengths = lists
        .as_list::<i32>()
        .iter()
        .map(|list| list.map_or(0, |list| list.len()));
    let numbers = lengths.map(|length| Some((1..=length as i32).map(Some).collect::<Vec<_>>()));
    Ok(Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
        numbers,
    )))
}
