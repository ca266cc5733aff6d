//! What a session offers to those who write ([`crate::write`], [`crate::define`]), and how its statements get there.

use super::client::{ClientSession, Effect, Prepared};
use super::error::more;
use super::plan::{Planned, read_only};
use super::portal::{Rows, Source, Tag};
use super::statement::{Kind, LockTable};
use super::store_transaction::{Isolation, Modes, SetConstraints, StatementEnd, StoreTransaction};
use super::zone::Zone;
use crate::catalog::{SessionFacts as _, folded, plannable};
use crate::data::{DICTIONARY, WITH_ROW_NUMBERS};
use crate::users::WriteRight;
use crate::write::{PreparedChange, TableInfo};
use crate::{define, write};
use arrow::array::RecordBatch;
use corun_datafusion::store::StoreTable;
use corun_store::{Snapshot, StoreError, Table};
use corun_wire::TransactionStatus;
use corun_wire::error::{Refusal, code};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType, Statement as Sql};
use std::sync::Arc;

/// Statements that change nothing here, since there is nothing to tidy up.
const TIDYING: &[&str] = &["VACUUM", "ANALYZE", "REINDEX", "CLUSTER"];

/// What a statement is for a session whose database is a store.
pub(super) enum Written<'a> {
    /// Of rows.
    Change(&'a Sql),
    Define(&'a Sql),
    Nothing(&'static str),
}

impl ClientSession {
    /// How a statement writes, if it does; `None`: it does not.
    ///
    /// # Errors
    /// It would, and this database is no store; it cannot be parsed.
    pub(super) fn written<'k>(&self, kind: &'k Kind) -> Result<Option<Written<'k>>, Refusal> {
        let (verb, statement) = match kind {
            Kind::Write { verb, statement } => (verb, statement),
            Kind::Planned(planned) if self.store.is_some() => {
                return Ok(match planned.as_ref() {
                    Statement::Statement(sql) => match sql.as_ref() {
                        Sql::Query(query) if write::changes(query) => Some(Written::Change(sql)),
                        Sql::Drop {
                            object_type: ObjectType::Table,
                            names,
                            ..
                        } if !names.iter().all(|name| self.is_external(name)) => Some(Written::Define(sql)),
                        _ => None,
                    },
                    _ => None,
                });
            }
            _ => return Ok(None),
        };
        if self.store.is_none() {
            return Err(read_only(verb));
        }
        if let Some(tag) = TIDYING.iter().find(|tidying| verb == *tidying) {
            return Ok(Some(Written::Nothing(tag)));
        }
        let statement = statement.as_ref().map_err(Clone::clone)?;
        Ok(Some(match statement.as_ref() {
            Sql::Insert(_) | Sql::Update(_) | Sql::Delete(_) | Sql::Merge(_) => Written::Change(statement),
            _ => Written::Define(statement),
        }))
    }

    /// Whether a name is that of a table beside the store's.
    fn is_external(&self, name: &ObjectName) -> bool {
        let Ok((schema, table)) = names(name) else {
            return false;
        };
        let path = match schema {
            Some(schema) => vec![schema],
            None => self.shared.search_path(),
        };
        let schema = path.into_iter().find(|schema| self.has_table(schema, &table));
        let of_store = |schema: &String| {
            let view = self.store.as_ref().map(|store| store.view());
            view.is_some_and(|view| matches!(view.table(schema, &table), Ok(Some(_))))
        };
        schema.is_some_and(|schema| !of_store(&schema))
    }

    /// Plans a statement that writes rows.
    pub(super) async fn prepared_change(
        &self,
        sql: &Sql,
        types: &[u32],
        text: &str,
    ) -> Result<PreparedChange, Refusal> {
        write::prepare(self, sql, types, text).await
    }

    /// Runs a statement that writes; `None`: it returns no rows.
    pub(super) async fn run_written(
        &mut self,
        prepared: &Prepared,
        parameters: &[ScalarValue],
    ) -> Result<Option<(String, Option<Rows>)>, Refusal> {
        let statement = &prepared.statement;
        match &statement.kind {
            Kind::Execute { name, arguments } => {
                let inner = Arc::clone(self.named(name)?);
                if self.written(&inner.statement.kind)?.is_none() {
                    return Ok(None);
                }
                let parameters = self
                    .arguments(name, &inner.parameters, arguments.as_deref())
                    .await?;
                return Box::pin(self.run_written(&inner, &parameters)).await;
            }
            Kind::LockTable(lock) => {
                self.lock_tables(lock)?;
                return Ok(Some(("LOCK TABLE".to_owned(), None)));
            }
            Kind::Backup(folder) => {
                self.backup(folder).await?;
                return Ok(Some(("CALL".to_owned(), None)));
            }
            Kind::Constraints { names, deferred } => {
                self.set_constraints(names, *deferred)?;
                return Ok(Some(("SET CONSTRAINTS".to_owned(), None)));
            }
            _ => {}
        }
        let Some(written) = self.written(&statement.kind)? else {
            return Ok(None);
        };
        match written {
            Written::Nothing(tag) => Ok(Some((tag.to_owned(), None))),
            Written::Define(sql) => {
                self.check_writable(sql)?;
                let tag = define::run(self, sql, &statement.text).await?;
                Ok(Some((tag.to_owned(), None)))
            }
            Written::Change(sql) => {
                self.check_writable(sql)?;
                let change = match prepared.change_of(self.versions()) {
                    Some(change) => change,
                    None => {
                        let types: Vec<u32> = prepared.parameters.iter().map(|of| of.oid()).collect();
                        Arc::new(write::prepare(self, sql, &types, &statement.text).await?)
                    }
                };
                let changed = change.run(self, parameters).await?;
                let tag = format!("{} {}", changed.verb, changed.rows);
                let rows = changed
                    .returned
                    .map(|batches| Rows::new(Source::Batches(batches.into()), Tag::Plain("")));
                Ok(Some((tag, rows)))
            }
        }
    }

    /// `LOCK TABLE`.
    fn lock_tables(&mut self, lock: &LockTable) -> Result<(), Refusal> {
        if self.transaction == TransactionStatus::Idle {
            let what = "LOCK TABLE can only be used in transaction blocks";
            return Err(Refusal::new(more::NO_TRANSACTION, what));
        }
        let tables = lock.tables.iter().map(|name| self.table_info(name));
        let tables = tables.collect::<Result<Vec<_>, _>>()?;
        for info in &tables {
            self.check_may_write(WriteRight::Update, info)?;
        }
        let Some(mode) = lock.lock else {
            return Ok(());
        };
        let store = self.store_transaction()?;
        match lock.wait {
            true => store.run(|transaction| {
                for info in &tables {
                    transaction.lock_table(&info.table, mode)?;
                }
                Ok(())
            }),
            false => {
                let refused = || {
                    let name = tables.first().map_or("", |info| info.name.as_str());
                    let what = format!("could not obtain lock on relation \"{name}\"");
                    Refusal::new("55P03", what)
                };
                store.run_without_waiting(
                    |transaction| {
                        for info in &tables {
                            transaction.lock_table(&info.table, mode)?;
                        }
                        Ok(())
                    },
                    refused,
                )
            }
        }
    }

    /// `SET CONSTRAINTS`: foreign keys are checked when the transaction commits, or now and with each statement.
    fn set_constraints(&mut self, named: &[ObjectName], deferred: bool) -> Result<(), Refusal> {
        if self.transaction == TransactionStatus::Idle {
            let what = "SET CONSTRAINTS can only be used in transaction blocks";
            let warning = Refusal::new(more::NO_TRANSACTION, what);
            self.effects.push(Effect::Warning(warning));
            return Ok(());
        }
        if self.store.is_none() {
            return Ok(());
        }
        let mut said = Vec::new();
        for name in named {
            said.extend(self.constraints_of(name, deferred)?);
        }
        if named.is_empty() {
            said.push(SetConstraints { of: None, deferred });
        }
        self.store_transaction()?.set_constraints(said)
    }

    /// The constraints of a name, in the first schema of the search path that has any.
    fn constraints_of(&mut self, name: &ObjectName, deferred: bool) -> Result<Vec<SetConstraints>, Refusal> {
        let (schema, name) = names(name)?;
        let path = match schema {
            Some(schema) => vec![schema],
            None => self.shared.search_path(),
        };
        let keys = self.store_transaction()?.deferrable()?;
        for schema in &path {
            let found = keys
                .iter()
                .filter(|key| key.schema == *schema && key.name == name);
            let found = found.map(|key| SetConstraints {
                of: Some((key.schema.clone(), key.table.clone(), key.name.clone())),
                deferred,
            });
            let found: Vec<SetConstraints> = found.collect();
            if !found.is_empty() {
                return Ok(found);
            }
            let Some(store) = &self.store else { continue };
            for table in store.view().tables(schema) {
                let info = store.view().info(schema, &table)?;
                if info.is_some_and(|info| info.has_constraint(&name)) {
                    let what = format!("constraint \"{name}\" is not deferrable");
                    return Err(Refusal::new("42809", what));
                }
            }
        }
        let what = format!("constraint \"{name}\" does not exist");
        Err(Refusal::new(code::UNDEFINED_OBJECT, what))
    }

    /// Whether the transaction may write.
    fn check_writable(&self, sql: &Sql) -> Result<(), Refusal> {
        // A statement with thousands of rows is not written out for its first word.
        let verb = match sql {
            Sql::Insert(_) => Some("INSERT"),
            Sql::Update(_) => Some("UPDATE"),
            Sql::Delete(_) => Some("DELETE"),
            Sql::Merge(of) if write::does_nothing(of) => return Ok(()),
            Sql::Merge(_) => Some("MERGE"),
            Sql::Truncate(_) => Some("TRUNCATE TABLE"),
            Sql::Query(_) => Some("SELECT FOR UPDATE"),
            _ => None,
        };
        if let Some(verb) = verb {
            return self.check_writes(verb);
        }
        let text = sql.to_string();
        let mut words = text.split_whitespace();
        let verb = words.next().unwrap_or_default();
        match verb {
            "CREATE" | "ALTER" | "DROP" => {
                let what = words.next().unwrap_or_default();
                self.check_writes(&format!("{verb} {what}"))
            }
            verb => self.check_writes(verb),
        }
    }

    /// Whether the database is a store, and the transaction may write to it.
    pub(super) fn check_writes(&self, what: &str) -> Result<(), Refusal> {
        if self.store.is_none() {
            return Err(read_only(what));
        }
        let in_block = self.transaction != TransactionStatus::Idle;
        if !self.shared.settings.lock().is_read_only(in_block) {
            return Ok(());
        }
        let what = format!("cannot execute {what} in a read-only transaction");
        Err(Refusal::new(more::READ_ONLY, what))
    }

    /// Another number after each change of the store's definitions; the transaction's own count, too.
    pub(super) fn definitions_version(&self) -> u64 {
        let view = self.store.as_ref().map(|store| store.view());
        view.map_or(0, |view| match view.has_own_definitions() {
            true => u64::MAX,
            false => view.version(),
        })
    }

    /// A table of the store that a statement names, as it is on the search path.
    ///
    /// # Errors
    /// 42P01; a database that is no store.
    pub(crate) fn table_info(&self, name: &ObjectName) -> Result<Arc<TableInfo>, Refusal> {
        let (schema, table) = names(name)?;
        let Some(store) = &self.store else {
            return Err(read_only("this"));
        };
        let path = match &schema {
            Some(schema) => vec![schema.clone()],
            None => self.shared.search_path(),
        };
        for schema in &path {
            if (schema.as_str(), table.as_str()) == DICTIONARY {
                let what = format!("permission denied for table {table}");
                return Err(Refusal::new(code::INSUFFICIENT_PRIVILEGE, what));
            }
            if let Some(info) = store.view().info(schema, &table)? {
                return Ok(info);
            }
        }
        if path.iter().any(|schema| self.has_table(schema, &table)) {
            let what = format!("\"{table}\" is not a table of the store");
            return Err(Refusal::new("42809", what).hint("Files and external tables are only read."));
        }
        let shown = schema.map_or_else(|| table.clone(), |schema| format!("{schema}.{table}"));
        Err(Refusal::new(
            more::UNDEFINED_TABLE,
            format!("relation \"{shown}\" does not exist"),
        ))
    }

    /// The client's transaction on the store.
    ///
    /// # Errors
    /// A database that is no store.
    pub(crate) fn store_transaction(&mut self) -> Result<&mut StoreTransaction, Refusal> {
        self.store.as_mut().ok_or_else(|| read_only("this"))
    }

    /// Plans a statement that was made of a client's, as those of clients are planned.
    ///
    /// # Errors
    /// Whatever is wrong with it.
    pub(crate) async fn plan_ast(
        &self,
        statement: Sql,
        types: &[u32],
        text: &str,
    ) -> Result<Planned, Refusal> {
        let statement = plannable(statement).map_err(|error| super::error::refusal(&error, text))?;
        self.plan(&statement, types, text).await
    }

    /// Reads a plan to its end, at one moment at which the transaction's own writes are seen.
    ///
    /// # Errors
    /// Whatever fails.
    pub(crate) async fn read_all(
        &mut self,
        plan: LogicalPlan,
        parameters: &[ScalarValue],
    ) -> Result<(Vec<RecordBatch>, Arc<Snapshot>), Refusal> {
        let tables = tables_of(&plan)?;
        let store = self.store_transaction()?;
        let moment = match store.read_moment(&tables)? {
            Some(moment) => moment,
            None => {
                let moment = store.store().durable_snapshot();
                let moment = Arc::new(moment.map_err(|error: StoreError| super::refusal_of(&error))?);
                store.view().set_moment(Some(Arc::clone(&moment)));
                moment
            }
        };
        let source = self.source_at(plan, parameters, "").await?;
        let mut rows = Rows::new(source, Tag::Plain(""));
        let mut batches = Vec::new();
        while let Some(batch) = rows.next("").await? {
            batches.push(batch);
        }
        Ok((batches, moment))
    }

    /// The moment that a query reads which begins now.
    pub(super) fn begin_reading(&mut self, plan: &LogicalPlan) -> Result<(), Refusal> {
        let Some(store) = &mut self.store else {
            return Ok(());
        };
        let tables = match store.isolation() {
            Isolation::Serializable => tables_of(plan)?,
            _ => Vec::new(),
        };
        store.read_moment(&tables).map(drop)
    }

    /// Schemas in which names without one are looked for, those that there are.
    pub(crate) fn search_path(&self) -> Vec<String> {
        self.shared.search_path()
    }

    /// Tells the client something that is no error.
    pub(crate) fn notice(&mut self, notice: Refusal) {
        self.effects.push(Effect::Notice(notice));
    }

    pub(crate) fn zone(&self) -> Zone {
        self.shared.settings.lock().zone()
    }

    /// Its name, as Arrow knows it.
    pub(super) fn zone_name(&self) -> String {
        self.shared.settings.lock().zone_name()
    }

    /// Whether the user may change a table in this way.
    pub(crate) fn check_may_write(&self, right: WriteRight, info: &TableInfo) -> Result<(), Refusal> {
        let user = &self.shared.who.user;
        if self
            .engine
            .rights
            .may_write(user, right, &info.schema, &info.name)
        {
            return Ok(());
        }
        let what = match right {
            WriteRight::Define => format!("must be owner of table {}", info.name),
            _ => format!("permission denied for table {}", info.name),
        };
        Err(Refusal::new(code::INSUFFICIENT_PRIVILEGE, what))
    }

    /// Whether the user may make tables and sequences in a schema.
    pub(crate) fn check_may_create(&self, schema: &str) -> Result<(), Refusal> {
        let user = &self.shared.who.user;
        match self.engine.rights.may_write(user, WriteRight::Define, schema, "") {
            true => Ok(()),
            false => Err(Refusal::new(
                code::INSUFFICIENT_PRIVILEGE,
                format!("permission denied for schema {schema}"),
            )),
        }
    }

    /// A statement begins: modes of a transaction that has not begun, and what ends the statement.
    pub(super) fn begin_on_store(&mut self, until: Option<std::time::Instant>) {
        let Some(store) = &mut self.store else {
            return;
        };
        let settings = self.shared.settings.lock();
        if !store.is_used() {
            store.set_modes(Modes {
                isolation: settings.isolation(self.transaction != TransactionStatus::Idle),
                lock_timeout: settings.lock_timeout(),
            });
        }
        store.set_end(StatementEnd {
            cancel: self.cancel.clone(),
            until,
        });
    }
}

/// Schema and name, folded as PostgreSQL does.
pub(crate) fn names(name: &ObjectName) -> Result<(Option<String>, String), Refusal> {
    let parts: Option<Vec<String>> = name.0.iter().map(|part| part.as_ident().map(folded)).collect();
    match parts.as_deref() {
        Some([table]) => Ok((None, table.clone())),
        Some([schema, table]) => Ok((Some(schema.clone()), table.clone())),
        Some([_, schema, table]) => Ok((Some(schema.clone()), table.clone())),
        _ => Err(Refusal::new(
            code::SYNTAX_ERROR,
            format!("improper qualified name (too many dotted names): {name}"),
        )),
    }
}

/// Tables of the store that a plan reads.
fn tables_of(plan: &LogicalPlan) -> Result<Vec<Table>, Refusal> {
    let mut tables: Vec<Table> = Vec::new();
    let visited = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
            && let Some(table) = provider.downcast_ref::<StoreTable>()
            && !tables.iter().any(|known| known.is_same(table.table()))
        {
            tables.push(table.table().clone());
        }
        Ok(TreeNodeRecursion::Continue)
    });
    visited.map_err(|error| super::error::refusal(&error, ""))?;
    Ok(tables)
}

/// A name without the mark of row numbers.
pub(super) fn plain(name: &str) -> &str {
    name.strip_prefix(WITH_ROW_NUMBERS).unwrap_or(name)
}
