//! `INSERT INTO t SELECT * FROM unnest('{1,2}'::integer[], '{a,b}'::text[])`, as ORMs write many rows: the same rows as those of `VALUES`,
//! without a plan for them.

use super::super::types::store_type;
use super::{TableInfo, is_bare};
use crate::catalog::{array_element_type, array_written};
use corun_wire::values::Kind;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Parens, Query, Select, SelectItem, SetExpr, TableFactor, Value,
};

/// The rows of a query that is nothing but `SELECT * FROM unnest(...)` of written arrays, each of its column's type.
pub(super) fn rows(query: &Query, info: &TableInfo, columns: &[usize]) -> Option<Vec<Parens<Vec<Expr>>>> {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let [from] = select.from.as_slice() else {
        return None;
    };
    let TableFactor::UNNEST {
        array_exprs,
        with_offset: false,
        with_ordinality: false,
        ..
    } = &from.relation
    else {
        return None;
    };
    if !is_bare(query) || !is_all(select) || !from.joins.is_empty() || array_exprs.len() > columns.len() {
        return None;
    }
    let mut arrays = Vec::with_capacity(array_exprs.len());
    for (array, at) in array_exprs.iter().zip(columns) {
        let (elements, of) = array_written(array)?;
        let (declared, _) = store_type(of).ok()?;
        if array_element_type(of).is_some() || declared != info.columns.get(*at)?.declared {
            return None;
        }
        // A cast to a length cuts what is too long, an assignment refuses it.
        let cut = match declared.of.kind {
            Kind::Varchar | Kind::Bpchar => declared.length,
            _ => None,
        };
        arrays.push((elements, cut));
    }
    let height = arrays.iter().map(|(elements, _)| elements.len()).max()?;
    let row = |at: usize| {
        let cells = arrays.iter().map(|(elements, cut)| match elements.get(at) {
            None => Expr::Value(Value::Null.into()),
            Some(element) => cut_to(element, *cut),
        });
        Parens::with_empty_span(cells.collect())
    };
    // `VALUES` has a row at least.
    (height > 0).then(|| (0..height).map(row).collect())
}

fn is_all(select: &Select) -> bool {
    let all = matches!(select.projection.as_slice(), [SelectItem::Wildcard(_)]);
    let grouped =
        !matches!(&select.group_by, GroupByExpr::Expressions(of, with) if of.is_empty() && with.is_empty());
    all && !grouped
        && select.distinct.is_none()
        && select.selection.is_none()
        && select.having.is_none()
        && select.into.is_none()
        && select.qualify.is_none()
}

fn cut_to(element: &Expr, length: Option<u32>) -> Expr {
    if let (Some(length), Expr::Value(value)) = (length, element)
        && let Value::SingleQuotedString(text) = &value.value
        && let Some((end, _)) = text.char_indices().nth(length as usize)
    {
        return Expr::Value(Value::SingleQuotedString(text[..end].to_owned()).into());
    }
    element.clone()
}
