//! PostgreSQL's `pg_catalog` and `information_schema` over the catalogs of a session, and the functions that clients ask the system with.
//!
//! ```text
//!  text ─► parse (rewrite, labels) ─► planner ─► names ─► SessionCatalog (schema)
//!                                                   ├─ pg_catalog: relations ─► tables; static rows of datafusion-pg-catalog
//!                                                   ├─ information_schema: relations ─► information
//!                                                   └─ everything else: the catalog's own schemas
//! ```
//!
//! Order of calls: [`install`] once for each session, then [`parse`] for each text. Numbers of objects (`oids`) are the same for all sessions
//! as long as the process lives. What it is not: a place for rights; [`SessionFacts`] answers who may do what.

mod arrays;
mod attributes;
mod constraints;
mod dump;
mod exists;
mod facts;
mod functions;
mod information;
mod json;
mod json_path;
mod labels;
mod oids;
mod quoting;
mod regclass;
mod relations;
mod rewrite;
mod roles;
mod rows;
mod schema;
mod scopes;
mod sequences;
mod settings;
mod stored;
mod subqueries;
mod tables;
mod typed;
mod types;
mod uuids;
mod written;
mod zones;

pub(crate) use arrays::{element as array_element_type, written as array_written};
pub use facts::{ActivityFact, RoleFact, SessionFacts, SettingFact};
pub(crate) use labels::{shown, shown_in};
pub(crate) use quoting::quoted;
pub use rewrite::parse;
pub(crate) use rewrite::plannable;
pub(crate) use scopes::{Scopes, folded};
pub(crate) use typed::{cast_by, metadata_of};
pub use types::{PgType, pg_type, pg_type_of};
pub(crate) use zones::{moment_text, timezone};

use crate::data::StoreView;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, MemoryCatalogProviderList};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_pg_catalog::pg_catalog::generate_series_arg_coercion::CoerceIntArgsToBigInt;
use datafusion_pg_catalog::pg_catalog::oid_type_planner::PgOidTypePlanner;
use datafusion_pg_catalog::pg_catalog::{array_bounds_udf, quote_ident_udf};
use functions::Context;
use schema::SessionCatalog;
use std::sync::Arc;
use uuids::Uuids;

/// Gives each catalog of a session the two system schemas, and the session the functions. The session's list of catalogs becomes its own.
///
/// # Errors
/// A session whose default catalog is not there.
pub fn install(context: &SessionContext, facts: Arc<dyn SessionFacts>) -> Result<()> {
    install_writing(context, facts, None)
}

/// The same for a session that writes to the store that its database is.
///
/// # Errors
/// As [`install`].
pub(crate) fn install_writing(
    context: &SessionContext,
    facts: Arc<dyn SessionFacts>,
    view: Option<Arc<StoreView>>,
) -> Result<()> {
    let state = context.state();
    let found = Arc::clone(state.catalog_list());
    let default = state.config().options().catalog.default_catalog.clone();
    let catalogs = Arc::new(MemoryCatalogProviderList::new());
    for name in found.catalog_names() {
        let Some(inner) = found.catalog(&name) else {
            continue;
        };
        let catalog: Arc<dyn CatalogProvider> = Arc::new(SessionCatalog {
            name: name.clone(),
            inner,
            all: Arc::clone(&found),
            facts: Arc::clone(&facts),
            view: view.clone().filter(|_| name == default),
        });
        catalogs.register_catalog(name, catalog);
    }
    let Some(tables) = catalogs.catalog(&default) else {
        let what = format!("there is no catalog \"{default}\"");
        return Err(DataFusionError::Configuration(what));
    };
    let mut config = context.copied_config();
    // DataFusion's own would stand before ours.
    config.options_mut().catalog.information_schema = false;
    let uuids = Uuids::new();
    let mut analyzer = state.analyzer().clone();
    analyzer.rules.insert(0, Arc::clone(&uuids) as _);
    let mut planners = state.expr_planners().to_vec();
    planners.insert(0, uuids);
    planners.insert(0, Arc::new(json_path::Operators));
    let mut replaced = SessionStateBuilder::new_from_existing(state)
        .with_expr_planners(planners)
        .with_config(config)
        .with_catalog_list(catalogs)
        .with_type_planner(Arc::new(PgOidTypePlanner));
    *replaced.analyzer() = Some(analyzer);
    let replaced = replaced.build();
    *context.state_ref().write() = replaced;
    let about = Arc::new(Context {
        catalog: default,
        tables,
        facts,
        view,
    });
    for function in functions::all_of(&about) {
        context.register_udf(function);
    }
    context.register_udf(timezone());
    for function in typed::all() {
        context.register_udf(function);
    }
    context.register_udf(quote_ident_udf::create_quote_ident_udf());
    context.register_udf(quote_ident_udf::create_parse_ident_udf());
    context.register_udf(array_bounds_udf::create_array_upper_udf());
    context.register_udf(array_bounds_udf::create_array_lower_udf());
    if let Some(tables) = schema::static_tables() {
        context.register_udtf("pg_get_keywords", Arc::clone(&tables.pg_get_keywords) as _);
    }
    CoerceIntArgsToBigInt::widen(context);
    Ok(())
}
