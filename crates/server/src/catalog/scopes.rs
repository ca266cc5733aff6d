//! [`Scopes`]: which names mean queries of a `WITH` and not tables, place by place, as a visitor goes through a statement.

use datafusion::sql::sqlparser::ast::{Ident, Query};

/// A name as the planner folds it.
pub(crate) fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

/// The queries around the place of a visit, outermost first.
#[derive(Default)]
pub(crate) struct Scopes(Vec<Scope>);

/// The names that a query's `WITH` gives.
struct Scope {
    names: Vec<String>,
    recursive: bool,
    /// Queries in it whose end was seen. Those of the names come first.
    ended: usize,
}

impl Scopes {
    /// The visit comes to a query.
    pub(crate) fn enter(&mut self, query: &Query) {
        let with = query.with.as_ref();
        let names = with.into_iter().flat_map(|with| &with.cte_tables);
        self.0.push(Scope {
            names: names.map(|cte| folded(&cte.alias.name)).collect(),
            recursive: with.is_some_and(|with| with.recursive),
            ended: 0,
        });
    }

    /// The visit leaves the query that it came to last.
    pub(crate) fn leave(&mut self) {
        self.0.pop();
        if let Some(outer) = self.0.last_mut() {
            outer.ended += 1;
        }
    }

    /// Whether a name means a query here: in a `WITH` one before this place, or any where it is recursive.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|scope| {
            let known = if scope.recursive { usize::MAX } else { scope.ended };
            scope.names.iter().take(known).any(|known| known == name)
        })
    }
}
