//! Columns of tables by their numbers, for what DataFusion cannot ask with subqueries.

use super::functions::{Call, texts};
use arrow::array::{ArrayRef, AsArray, ListBuilder, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int32Type};
use datafusion::error::Result;
use std::sync::Arc;

/// The position of a column by its number.
fn position(number: Option<i32>) -> Option<usize> {
    usize::try_from(number?).ok()?.checked_sub(1)
}

/// `attribute_default(table, column)`.
pub(super) fn default(call: &Call<'_>) -> Result<ArrayRef> {
    let columns = call.number(1)?;
    let objects = call.number(0)?.into_iter().map(|number| call.object(number));
    texts(objects.zip(columns).map(|(object, column)| {
        let object = object.filter(|object| object.kind == "class")?;
        object.defaults.get(position(column)?)?.clone()
    }))
}

/// `col_description(table, column)`.
pub(super) fn description(call: &Call<'_>) -> Result<ArrayRef> {
    let columns = call.number(1)?;
    let objects = call.number(0)?.into_iter().map(|number| call.object(number));
    texts(objects.zip(columns).map(|(object, column)| {
        let object = object.filter(|object| object.kind == "class")?;
        object.comments.get(position(column)?)?.clone()
    }))
}

/// `identity_options(table, name)`: those of the column's sequence.
pub(super) fn identity(call: &Call<'_>) -> Result<ArrayRef> {
    let names = call.text(1)?;
    let objects = call.number(0)?.into_iter().map(|number| call.object(number));
    texts(objects.zip(names).map(|(object, name)| {
        let object = object.filter(|object| object.kind == "class")?;
        let name = name?;
        let at = object.columns.iter().position(|column| *column == name)?;
        object.identities.get(at)?.clone()
    }))
}

/// `referenced_column(table, columns)`: table and name of the first.
pub(super) fn referenced(call: &Call<'_>) -> Result<ArrayRef> {
    let numbers = DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
    let lists = cast(&call.columns[1], &numbers)?;
    let tables = call.number(0)?.into_iter();
    texts(tables.zip(lists.as_list::<i32>().iter()).map(|(table, list)| {
        let object = call.object(table).filter(|object| object.kind == "class")?;
        let list = list?;
        let first = list.as_primitive::<Int32Type>().iter().next().flatten();
        let column = object.columns.get(position(first)?)?;
        Some(format!("{}.{column}", object.name))
    }))
}

/// `attribute_names(table, columns)`.
pub(super) fn names(call: &Call<'_>) -> Result<ArrayRef> {
    let numbers = DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
    let lists = cast(&call.columns[1], &numbers)?;
    let mut names = ListBuilder::new(StringBuilder::new());
    for (table, list) in call.number(0)?.into_iter().zip(lists.as_list::<i32>().iter()) {
        let object = call.object(table).filter(|object| object.kind == "class");
        let (Some(object), Some(list)) = (object, list) else {
            names.append_null();
            continue;
        };
        let columns = list.as_primitive::<Int32Type>().iter();
        names.append_value(columns.map(|column| object.columns.get(position(column)?).cloned()));
    }
    Ok(Arc::new(names.finish()))
}
