//! Which keys statements are understood to touch: by example, against an oracle, with texts that share a plan, and from bytes that
//! are no Bind.

mod examples;
mod fast;
mod oracle;
mod shared;

use std::sync::Arc;

use corun_model::pooler::ranges::Span;
use corun_pooler::understand::keys::{KeyKind, KeyPlan, Literals, parameters_of_bind};
use corun_pooler::understand::{Limits, Understanding};

/// The plan of a text.
fn plan(text: &str) -> Option<Arc<KeyPlan>> {
    Understanding::new(Limits::default())
        .of(text.as_bytes())
        .keys
        .clone()
}

/// A value of a Bind: its format, and its bytes unless it is NULL.
type Value = (u16, Option<Vec<u8>>);

/// The body of a Bind.
fn bind(values: &[Value]) -> Vec<u8> {
    let mut out = b"\0statement\0".to_vec();
    let count = (values.len() as u16).to_be_bytes();
    out.extend(count);
    values
        .iter()
        .for_each(|(format, _)| out.extend(format.to_be_bytes()));
    out.extend(count);
    for (_, value) in values {
        out.extend(
            value
                .as_ref()
                .map_or(-1, |value| value.len() as i32)
                .to_be_bytes(),
        );
        out.extend(value.iter().flatten());
    }
    out.extend([0, 0]);
    out
}

/// What a text with these parameters touches of a column of its plan.
fn span(plan: &KeyPlan, column: usize, kind: KeyKind, text: &str, values: &[Value]) -> Span {
    let body = bind(values);
    let values = parameters_of_bind(&body).expect("a Bind");
    plan.span(column, kind, &(values, Literals::of(text.as_bytes())))
}

/// All that a text with these parameters says: `table.column span` for each column, of several tables `a|b.column`.
fn said(text: &str, kind: KeyKind, values: &[Value]) -> String {
    let Some(plan) = plan(text) else {
        return String::new();
    };
    let said = plan.columns().iter().enumerate().map(|(index, column)| {
        let tables: Vec<_> = column
            .tables
            .iter()
            .map(|table| match &table.schema {
                Some(schema) => format!("{schema}.{}", table.name),
                None => table.name.to_string(),
            })
            .collect();
        let span = span(&plan, index, kind, text, values);
        format!("{}.{} {span}", tables.join("|"), column.column)
    });
    said.collect::<Vec<_>>().join("; ")
}
