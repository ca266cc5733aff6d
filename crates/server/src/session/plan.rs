//! Planning: every statement passes the gate before it is planned and after, names are looked for along the search path, and what is not
//! there is told with what is near.

use super::client::ClientSession;
use super::error::{self, more};
use super::parameters;
use super::settings::check_bounds;
use super::typing;
use super::values::columns_of;
use super::writing::plain;
use crate::catalog::{Scopes, folded};
use corun_datafusion::nearest;
use corun_wire::error::{Refusal, code};
use corun_wire::server::Column;
use corun_wire::values::Type;
use datafusion::common::TableReference;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::functions_table::generate_series::GenerateSeriesTable;
use datafusion::logical_expr::{LogicalPlan, Statement as PlannedStatement};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, Statement as Sql, TableFactor, Visit, VisitMut, Visitor,
    VisitorMut,
};
use futures::FutureExt;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;

/// Columns of a result: clients read their number as one of two bytes with a sign.
const COLUMNS_MAX: usize = i16::MAX as usize;
/// Tables that a statement may have, each time that it has one.
const TABLES_MAX: usize = 500;
/// The scan of a function that reads nothing.
const KEYWORDS: &str = "pg_get_keywords()";

/// A statement's plan and the types of its parameters.
pub(crate) struct Planned {
    pub(crate) plan: LogicalPlan,
    pub(crate) parameters: Vec<Type>,
}

impl ClientSession {
    /// Plans a statement whose parameters have these types, as far as the client gives them.
    pub(super) async fn plan(
        &self,
        statement: &Statement,
        given: &[u32],
        text: &str,
    ) -> Result<Planned, Refusal> {
        let casts = parameters::find(statement)?;
        if casts.is_empty() && given.is_empty() {
            let plan = self.plan_typed(statement, None, text).await?;
            return Ok(Planned {
                plan,
                parameters: Vec::new(),
            });
        }
        // Once to find the types out, once with them.
        let untyped = self.plan_typed(statement, None, text).await;
        let mut inferred = match &untyped {
            Ok(plan) => parameters::inferred(plan),
            // It may be for want of types; with them it is told again.
            Err(_) => HashMap::new(),
        };
        if let Some((elements, numbers)) = parameters::elements(statement)
            && let Ok(plan) = self.plan_typed(&elements, None, text).await
        {
            let types = parameters::inferred(&plan);
            for name in numbers.into_iter().map(|number| format!("${number}")) {
                if let Some(list) = types.get(&name).and_then(|of| Type::array_of(of.kind)) {
                    inferred.insert(name, list);
                }
            }
        }
        let types = parameters::decide(given, &inferred, &casts)?;
        let plan = self.plan_typed(statement, Some(&types), text).await?;
        Ok(Planned {
            plan,
            parameters: types,
        })
    }

    /// The columns of a plan's rows. Those of `CASE` and `UNION` have the type of the first part before the analyzer has looked at all.
    ///
    /// # Errors
    /// More than a message can have.
    pub(crate) fn columns(&self, plan: &LogicalPlan) -> Result<Vec<Column>, Refusal> {
        let state = self.context.state_ref();
        let state = state.read();
        let analyzer = state.analyzer();
        let analyzed = analyzer.execute_and_check(plan.clone(), state.config_options(), |_, _| {});
        // What is wrong with it is told when it runs.
        let typed = analyzed.as_ref().unwrap_or(plan);
        let mut columns = columns_of(typed.schema().as_arrow());
        let texts = columns
            .iter_mut()
            .enumerate()
            .filter(|(_, of)| of.of == Type::TEXT);
        for (at, column) in texts.filter(|_| self.store.is_some()) {
            if let Some(of) =
                typing::origin(plan, at).and_then(|of| Some((Type::of(of.oid.unsigned_abs())?, of.modifier)))
            {
                (column.of, column.modifier) = of;
            }
        }
        match columns.len() <= COLUMNS_MAX {
            true => Ok(columns),
            false => {
                let what = format!("a result has {} columns, more than {COLUMNS_MAX}", columns.len());
                Err(Refusal::new("54011", what))
            }
        }
    }

    async fn plan_typed(
        &self,
        statement: &Statement,
        types: Option<&[Type]>,
        text: &str,
    ) -> Result<LogicalPlan, Refusal> {
        let user = &self.shared.who.user;
        let files = self.engine.rights.files(user);
        self.engine.data.gate(statement, files)?;
        let names_tables = check_tables(statement)?;
        let mut statement = statement.clone();
        if names_tables {
            self.resolve(&mut statement).await;
        }
        if let (Some(types), Statement::Statement(sql)) = (types, &mut statement) {
            let inner = sql.clone();
            **sql = Sql::Prepare {
                name: Ident::new("statement"),
                data_types: types.iter().copied().map(parameters::sql_type).collect(),
                statement: inner,
            };
        }
        let at_once = match names_tables {
            true => None,
            false => self.planned_at_once(&statement),
        };
        let planned = match at_once {
            Some(planned) => planned,
            None => {
                let state = self.context.state();
                caught(state.statement_to_plan(statement)).await
            }
        };
        let plan = match planned {
            Ok(Ok(plan)) => plan,
            Ok(Err(error)) => return Err(self.with_near_names(error::refusal(&error, text)).await),
            Err(_) => {
                return Err(Refusal::new(
                    code::INTERNAL_ERROR,
                    "the planner cannot plan this statement",
                ));
            }
        };
        let plan = match plan {
            LogicalPlan::Statement(PlannedStatement::Prepare(prepare)) => prepare.input.as_ref().clone(),
            plan => plan,
        };
        if let LogicalPlan::Dml(dml) = &plan {
            return Err(read_only(&dml.op.to_string().to_uppercase()));
        }
        let plan = match self.store.is_some() {
            true => typing::typed(plan, self.zone(), &self.zone_name())
                .map_err(|error| error::refusal(&error, text))?,
            false => plan,
        };
        let plan = self.engine.data.gate_plan(plan, files)?;
        if let LogicalPlan::Statement(PlannedStatement::SetVariable(set)) = &plan {
            check_bounds(&set.variable, &set.value, self.engine.rights.is_superuser(user))?;
        }
        self.check_rights(&plan)?;
        self.check_owner(&plan)?;
        Ok(plan)
    }

    /// Plans without a copy of the session's state, which has hundreds of functions. `None`: something has to be waited for.
    fn planned_at_once(&self, statement: &Statement) -> Option<Caught<LogicalPlan>> {
        let state = self.context.state_ref();
        let state = state.read();
        caught(state.statement_to_plan(statement.clone())).now_or_never()
    }

    /// Whether the user may read all tables of a plan.
    fn check_rights(&self, plan: &LogicalPlan) -> Result<(), Refusal> {
        let mut denied = None;
        let user = &self.shared.who.user;
        // Names without a schema are of the first of the search path.
        let state = self.context.state_ref();
        let usual = state.read().config_options().catalog.default_schema.clone();
        let database = self.shared.database.as_str();
        let mut elsewhere = None;
        let visited = plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                let table = plain(scan.table_name.table());
                if scan.table_name.catalog().is_some_and(|of| of != database) {
                    elsewhere = Some(scan.table_name.to_string());
                    return Ok(TreeNodeRecursion::Stop);
                }
                let schema = scan.table_name.schema().unwrap_or(&usual);
                let system = matches!(schema, "pg_catalog" | "information_schema");
                // Files that statements name are the gate's, and so are functions.
                let file = crate::data::is_path(table);
                let function = source_as_provider(&scan.source)?.is::<GenerateSeriesTable>()
                    || table == KEYWORDS && !self.has_table(schema, table);
                if !system && !file && !function && !self.engine.rights.may_read(user, schema, table) {
                    denied = Some(table.to_owned());
                    return Ok(TreeNodeRecursion::Stop);
                }
            }
            Ok(TreeNodeRecursion::Continue)
        });
        if let Some(name) = elsewhere {
            let what = format!("cross-database references are not implemented: {name}");
            return Err(Refusal::new(code::NOT_SUPPORTED, what).hint("Connect to that database."));
        }
        match (visited, denied) {
            (Err(error), _) => Err(error::refusal(&error, "")),
            (_, Some(table)) => Err(Refusal::new(
                code::INSUFFICIENT_PRIVILEGE,
                format!("permission denied for table {table}"),
            )),
            _ => Ok(()),
        }
    }

    /// Gives names without a schema the first of the search path that has them, where that is not the session's default.
    async fn resolve(&self, statement: &mut Statement) {
        let path = crate::catalog::SessionFacts::search_path(self.shared.as_ref());
        if path.len() < 2 {
            return;
        }
        let state = self.context.state_ref();
        let Ok(references) = state.read().resolve_table_references(statement) else {
            return;
        };
        let mut moved: HashMap<String, String> = HashMap::new();
        for reference in references {
            let TableReference::Bare { table } = reference else {
                continue;
            };
            for (at, schema) in path.iter().enumerate() {
                if self.has_table(schema, &table) {
                    if at > 0 {
                        moved.insert(table.to_string(), schema.clone());
                    }
                    break;
                }
            }
        }
        let Statement::Statement(sql) = statement else {
            return;
        };
        if moved.is_empty() {
            return;
        }
        let mut moved = Moved {
            to: moved,
            scopes: Scopes::default(),
        };
        _ = VisitMut::visit(sql.as_mut(), &mut moved);
    }

    pub(super) fn has_table(&self, schema: &str, table: &str) -> bool {
        let catalog = self.context.catalog(&self.shared.database);
        let schema = catalog.and_then(|catalog| catalog.schema(schema));
        schema.is_some_and(|schema| schema.table_exist(table))
    }

    /// The refusal of a table that is not there, with the nearest that is.
    async fn with_near_names(&self, refusal: Refusal) -> Refusal {
        if refusal.code != more::UNDEFINED_TABLE || refusal.hint.is_some() {
            return refusal;
        }
        let Some(name) = refusal.message.split('"').nth(1).map(str::to_owned) else {
            return refusal;
        };
        let catalog = self.context.catalog(&self.shared.database);
        let mut known = Vec::new();
        for schema in self.engine.schemas(&self.shared.database) {
            let tables = catalog.as_ref().and_then(|catalog| catalog.schema(&schema));
            let tables = tables.map(|schema| schema.table_names()).unwrap_or_default();
            known.extend(tables.into_iter().map(|table| match schema.as_str() {
                "public" => table,
                schema => format!("{schema}.{table}"),
            }));
        }
        // A table of that very name in another schema is nearer than one of a similar name.
        let bare = name.rsplit('.').next().unwrap_or(&name);
        let elsewhere = known.iter().find(|known| known.rsplit('.').next() == Some(bare));
        let whole: Vec<&str> = known.iter().map(String::as_str).collect();
        let bare_of: Vec<&str> = whole
            .iter()
            .map(|name| name.rsplit('.').next().unwrap_or(name))
            .collect();
        let similar = || {
            let near = nearest(bare, &bare_of)?;
            whole
                .iter()
                .zip(&bare_of)
                .find(|(_, known)| **known == near)
                .map(|(whole, _)| *whole)
        };
        match elsewhere
            .map(String::as_str)
            .or_else(|| nearest(&name, &whole))
            .or_else(similar)
        {
            Some(near) => refusal.hint(format!("Perhaps you meant the table \"{near}\".")),
            None => refusal.hint("\\d in psql, or information_schema.tables, lists the tables."),
        }
    }
}

/// What planning gave, or its panic.
type Caught<T> = std::thread::Result<datafusion::error::Result<T>>;

/// Functions of constants are evaluated while a statement is planned, and may panic.
fn caught<T>(
    planning: impl Future<Output = datafusion::error::Result<T>>,
) -> impl Future<Output = Caught<T>> {
    AssertUnwindSafe(planning).catch_unwind()
}

/// Whether a statement names tables, or may. Refuses one with more than can be planned in a reasonable time, which nothing interrupts, and in
/// a reasonable memory: each join of them holds the columns of all before it.
fn check_tables(statement: &Statement) -> Result<bool, Refusal> {
    let Statement::Statement(sql) = statement else {
        return Ok(true);
    };
    let mut tables = Tables::default();
    match Visit::visit(sql.as_ref(), &mut tables) {
        ControlFlow::Continue(()) => Ok(tables.named > 0 || tables.all > 0),
        ControlFlow::Break(()) => {
            let what = format!("a statement has more than {TABLES_MAX} tables");
            Err(Refusal::new("54001", what))
        }
    }
}

/// Tables of a statement.
#[derive(Default)]
struct Tables {
    named: usize,
    /// With subqueries and functions, but without those that stand in no `FROM`.
    all: usize,
}

impl Visitor for Tables {
    type Break = ();

    fn pre_visit_relation(&mut self, _: &ObjectName) -> ControlFlow<()> {
        self.named += 1;
        self.within()
    }

    fn pre_visit_table_factor(&mut self, _: &TableFactor) -> ControlFlow<()> {
        self.all += 1;
        self.within()
    }
}

impl Tables {
    fn within(&self) -> ControlFlow<()> {
        match self.named.max(self.all) > TABLES_MAX {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Gives tables their schema.
struct Moved {
    to: HashMap<String, String>,
    scopes: Scopes,
}

impl VisitorMut for Moved {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.scopes.enter(query);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.leave();
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &mut ObjectName) -> ControlFlow<()> {
        if let [ObjectNamePart::Identifier(only)] = name.0.as_slice() {
            let only = folded(only);
            if let Some(schema) = self.to.get(&only).filter(|_| !self.scopes.has(&only)) {
                let schema = ObjectNamePart::Identifier(Ident::with_quote('"', schema));
                name.0.insert(0, schema);
            }
        }
        ControlFlow::Continue(())
    }
}

/// What would write is refused.
pub(super) fn read_only(what: &str) -> Refusal {
    Refusal::new(
        more::READ_ONLY,
        format!("cannot execute {what} in a read-only transaction"),
    )
    .hint(
        "Only a database whose folder is a store can be written to; to write query results into a file, use COPY ... TO 'file'.",
    )
}
