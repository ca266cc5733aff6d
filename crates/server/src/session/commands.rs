//! What is no query: settings, transactions, cursors, statements with names, and results that the session makes itself.

use super::client::{ClientSession, Effect, Prepared};
use super::error::more;
use super::portal::{Portal, State};
use super::settings::NAME_BYTES_MAX;
use super::statement::{Kind, Mode, Parsed};
use super::store_transaction::StoreTransaction;
use crate::catalog::{SessionFacts as _, shown_in};
use crate::users::{Change, Right};
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use corun_datafusion::{Coordinator, State as Queue};
use corun_wire::TransactionStatus;
use corun_wire::error::{Refusal, code};
use std::sync::Arc;

/// Cursors and prepared statements of SQL that a session may have, each.
const NAMED_MAX: usize = 1000;
/// Bytes of their texts, all together. What is kept of each takes about three times as much.
const NAMED_BYTES_MAX: usize = 16 << 20;

fn texts(names: &[&str]) -> SchemaRef {
    let fields = names.iter().map(|name| Field::new(*name, DataType::Utf8, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Columns of results that the session makes itself.
pub(super) fn schema_of(kind: &Kind, name: Option<&str>) -> Option<SchemaRef> {
    match kind {
        Kind::Explain { .. } => Some(texts(&["QUERY PLAN"])),
        Kind::Show(asked) => Some(texts(&[name.unwrap_or(asked)])),
        Kind::ShowAll => Some(texts(&["name", "setting", "description"])),
        Kind::ShowQueue => Some(texts(&["query", "state", "class", "milliseconds", "cpus", "why"])),
        _ => None,
    }
}

fn rows(schema: SchemaRef, rows: &[Vec<String>]) -> Result<RecordBatch, Refusal> {
    let columns = (0..schema.fields().len()).map(|at| {
        let cells = rows.iter().map(|row| {
            row.get(at)
                .map(String::as_str)
                .filter(|text| !text.is_empty() || at == 0)
        });
        Arc::new(cells.collect::<StringArray>()) as ArrayRef
    });
    RecordBatch::try_new(schema, columns.collect())
        .map_err(|error| Refusal::new(code::INTERNAL_ERROR, error.to_string()))
}

/// Lines of a text as rows of `QUERY PLAN`.
pub(super) fn lines(text: &str) -> Result<RecordBatch, Refusal> {
    let lines: Vec<Vec<String>> = shown_in(text).lines().map(|line| vec![line.to_owned()]).collect();
    rows(texts(&["QUERY PLAN"]), &lines)
}

impl ClientSession {
    /// Name and value of a setting, as `SHOW` has them.
    pub(super) fn setting(&self, name: &str) -> Result<(String, String), Refusal> {
        if name.starts_with("datafusion.") || name.starts_with("corun.") {
            let config = self.context.copied_config();
            let options = config.options();
            let extension = options.extensions.iter().flat_map(|(prefix, of)| {
                let entries = of.entries().into_iter();
                entries.map(move |entry| (format!("{prefix}.{}", entry.key), entry.value))
            });
            let own = options
                .entries()
                .into_iter()
                .map(|entry| (entry.key, entry.value));
            let found = own.chain(extension).find(|(key, _)| key == name);
            let unknown = || {
                Refusal::new(
                    code::UNDEFINED_OBJECT,
                    format!("unrecognized configuration parameter \"{name}\""),
                )
            };
            return found
                .map(|(key, value)| (key, value.unwrap_or_default()))
                .ok_or_else(unknown);
        }
        let settings = self.shared.settings.lock();
        settings
            .get(name)
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    }

    /// The rows of a result that the session makes itself.
    pub(super) fn made(&self, kind: &Kind) -> Result<RecordBatch, Refusal> {
        match kind {
            Kind::Show(name) => {
                let (name, value) = self.setting(name)?;
                let column: ArrayRef = Arc::new(StringArray::from(vec![value]));
                let batch = RecordBatch::try_new(texts(&[&name]), vec![column]);
                batch.map_err(|error| Refusal::new(code::INTERNAL_ERROR, error.to_string()))
            }
            Kind::ShowAll => {
                let facts = self.shared.settings.lock().facts();
                let all: Vec<Vec<String>> = facts
                    .into_iter()
                    .map(|fact| vec![fact.name, fact.value, fact.description])
                    .collect();
                rows(texts(&["name", "setting", "description"]), &all)
            }
            _ => {
                let schema = schema_of(&Kind::ShowQueue, None).unwrap_or_else(|| texts(&[]));
                let state = self.engine.coordinator.as_ref().map(Coordinator::state);
                rows(schema, &state.map(queue).unwrap_or_default())
            }
        }
    }

    /// Carries out what has neither rows nor plan; returns its tag.
    pub(super) fn command(&mut self, statement: &Parsed) -> Result<&'static str, Refusal> {
        match &statement.kind {
            Kind::Set {
                name,
                value,
                local,
                tag,
            } => self.set(name, value.as_deref(), *local).map(|()| *tag),
            Kind::ResetAll => {
                self.shared.settings.lock().reset_all();
                Ok("RESET")
            }
            Kind::Discard(what) => self.discard(what),
            Kind::Deallocate(None) => {
                self.statements.clear();
                self.effects.push(Effect::DeallocateAll);
                Ok("DEALLOCATE ALL")
            }
            Kind::Deallocate(Some(name)) => {
                if self.statements.remove(name).is_none() {
                    self.effects.push(Effect::Deallocate(name.clone()));
                }
                Ok("DEALLOCATE")
            }
            Kind::Close(None) => {
                self.cursors.clear();
                Ok("CLOSE CURSOR ALL")
            }
            Kind::Close(Some(name)) => match self.cursors.remove(name) {
                Some(_) => Ok("CLOSE CURSOR"),
                None => Err(no_cursor(name)),
            },
            Kind::Nothing(tag) => Ok(tag),
            Kind::Rights(change) => self.change_rights(change),
            _ => Err(Refusal::new(
                code::INTERNAL_ERROR,
                "this statement has no such way",
            )),
        }
    }

    /// Changes users or their rights, in the file and for everyone from now on.
    fn change_rights(&self, change: &Change) -> Result<&'static str, Refusal> {
        let verb = change.verb();
        if self.transaction != TransactionStatus::Idle {
            let what = format!("{verb} cannot run inside a transaction block");
            return Err(Refusal::new(more::ACTIVE_TRANSACTION, what));
        }
        let change = match change {
            Change::Grant(right, roles, is_grant) => {
                Change::Grant(self.found(right)?, roles.clone(), *is_grant)
            }
            other => other.clone(),
        };
        self.engine.rights.change(&self.shared.who.user, &change)?;
        Ok(verb)
    }

    /// The right with the schemas of its tables, which there must be.
    fn found(&self, right: &Right) -> Result<Right, Refusal> {
        let mut schemas = self.engine.schemas(&self.shared.database);
        schemas.extend(self.store.iter().flat_map(|store| store.view().schemas()));
        let schema = |name: &str| match schemas.iter().any(|known| known == name) {
            true => Ok(()),
            false => Err(Refusal::new(
                more::UNDEFINED_SCHEMA,
                format!("schema \"{name}\" does not exist"),
            )),
        };
        match right {
            Right::Roles(_) => Ok(right.clone()),
            Right::Schemas(_, names) => names
                .iter()
                .try_for_each(|name| schema(name))
                .map(|()| right.clone()),
            Right::Tables(rights, tables) => {
                let tables = tables.iter().map(|text| {
                    let (of, table) = text.split_once('.').unwrap_or(("", text));
                    let path = self.shared.search_path();
                    let among: Vec<&str> = match of {
                        "" => path.iter().map(String::as_str).collect(),
                        of => vec![of],
                    };
                    if !of.is_empty() {
                        schema(of)?;
                    }
                    let found = among
                        .into_iter()
                        .find(|schema| table == "*" || self.has_table(schema, table));
                    found.map(|schema| format!("{schema}.{table}")).ok_or_else(|| {
                        let shown = text.trim_start_matches('.');
                        Refusal::new(
                            more::UNDEFINED_TABLE,
                            format!("relation \"{shown}\" does not exist"),
                        )
                    })
                });
                Ok(Right::Tables(rights.clone(), tables.collect::<Result<_, _>>()?))
            }
        }
    }

    fn set(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<(), Refusal> {
        if local && self.transaction == TransactionStatus::Idle {
            let what = "SET LOCAL can only be used in transaction blocks";
            self.effects
                .push(Effect::Warning(Refusal::new(more::NO_TRANSACTION, what)));
        }
        if name == "session_authorization" && value.is_none_or(|value| value == self.shared.who.user) {
            return Ok(());
        }
        self.shared.settings.lock().set(name, value, local).map(drop)
    }

    /// Begins, divides or ends a transaction; `None`: the statement does something else.
    pub(super) async fn change_transaction(&mut self, kind: &Kind) -> Result<Option<&'static str>, Refusal> {
        let open = self.transaction != TransactionStatus::Idle;
        let warn = |code, what: &str| Effect::Warning(Refusal::new(code, what));
        let tag = match kind {
            Kind::Modes { modes, session } => self.set_modes(modes, *session)?,
            Kind::Begin(modes, tag) => {
                if open {
                    self.effects.push(warn(
                        more::ACTIVE_TRANSACTION,
                        "there is already a transaction in progress",
                    ));
                } else {
                    self.begin_transaction();
                    self.transaction = TransactionStatus::Open;
                }
                self.set_local_modes(modes)?;
                tag
            }
            Kind::Commit | Kind::Rollback => {
                if !open {
                    self.effects
                        .push(warn(more::NO_TRANSACTION, "there is no transaction in progress"));
                }
                let commit = *kind_name(kind) == *"COMMIT" && self.transaction != TransactionStatus::Failed;
                let ended = self.end_on_store(commit).await;
                self.end_transaction((commit || !open) && ended.is_ok());
                ended?;
                if commit { "COMMIT" } else { "ROLLBACK" }
            }
            Kind::Savepoint(name) | Kind::Release(name) | Kind::RollbackTo(name) => {
                if !open {
                    let what = format!("{} can only be used in transaction blocks", kind_name(kind));
                    return Err(Refusal::new(more::NO_TRANSACTION, what));
                }
                if matches!(kind, Kind::Savepoint(_)) {
                    check_name(name)?;
                    if self.savepoints.len() >= NAMED_MAX {
                        return Err(Refusal::new(
                            code::PROGRAM_LIMIT,
                            format!("a transaction has {NAMED_MAX} savepoints at most"),
                        ));
                    }
                    if let Some(store) = &mut self.store {
                        store.savepoint()?;
                    }
                    self.savepoints.push(name.clone());
                    return Ok(Some("SAVEPOINT"));
                }
                let at = self.savepoints.iter().rposition(|known| known == name);
                let at =
                    at.ok_or_else(|| Refusal::new("3B001", format!("savepoint \"{name}\" does not exist")))?;
                if matches!(kind, Kind::Release(_)) {
                    self.savepoints.truncate(at);
                    if let Some(store) = &mut self.store {
                        store.release(at);
                    }
                    return Ok(Some("RELEASE"));
                }
                if let Some(store) = &mut self.store {
                    store.rollback_to(at)?;
                }
                self.savepoints.truncate(at + 1);
                self.transaction = TransactionStatus::Open;
                "ROLLBACK"
            }
            _ => return Ok(None),
        };
        Ok(Some(tag))
    }

    /// Without `READ WRITE` where nothing can be written: it is taken, as what writes is refused itself.
    fn kept_modes(&self, modes: &[Mode]) -> Vec<Mode> {
        let is_kept = |mode: &&Mode| self.store.is_some() || **mode != ("transaction_read_only", "off");
        modes.iter().filter(is_kept).copied().collect()
    }

    /// Modes of the transaction that is open.
    fn set_local_modes(&mut self, modes: &[Mode]) -> Result<(), Refusal> {
        for (name, value) in &self.kept_modes(modes) {
            let is_used = self.store.as_ref().is_some_and(StoreTransaction::is_used);
            if is_used && *name == "transaction_isolation" {
                let what = "SET TRANSACTION ISOLATION LEVEL must be called before any query";
                return Err(Refusal::new(more::ACTIVE_TRANSACTION, what));
            }
            self.shared.settings.lock().set(name, Some(value), true)?;
        }
        self.begin_on_store(None);
        Ok(())
    }

    fn set_modes(&mut self, modes: &[Mode], session: bool) -> Result<&'static str, Refusal> {
        if session {
            for (name, value) in &self.kept_modes(modes) {
                let name = format!("default_{name}");
                self.shared.settings.lock().set(&name, Some(value), false)?;
            }
        } else if self.transaction == TransactionStatus::Idle {
            let what = "SET TRANSACTION can only be used in transaction blocks";
            let warning = Refusal::new(more::NO_TRANSACTION, what);
            self.effects.push(Effect::Warning(warning));
        } else {
            self.set_local_modes(modes)?;
        }
        Ok("SET")
    }

    /// Ends the transaction on the store.
    async fn end_on_store(&mut self, commit: bool) -> Result<(), Refusal> {
        let wait = self.shared.settings.lock().waits_for_disk();
        match &mut self.store {
            Some(store) if commit => store.commit(wait).await,
            Some(store) => {
                store.rollback();
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Ends what statements have written outside of a transaction block.
    pub(super) async fn end_implicit(&mut self, commit: bool) -> Result<(), Refusal> {
        self.texts.implicit_ended();
        match self.store.as_ref().is_some_and(StoreTransaction::is_used) {
            true => self.end_on_store(commit).await,
            false => Ok(()),
        }
    }

    /// The same for a text that failed.
    pub(super) fn fail_implicit(&mut self) {
        if self.transaction != TransactionStatus::Idle {
            return;
        }
        self.texts.implicit_ended();
        if let Some(store) = &mut self.store {
            store.rollback();
        }
    }

    pub(super) fn begin_transaction(&mut self) {
        self.shared.settings.lock().begin();
        self.config_before = Some(self.context.copied_config());
    }

    pub(super) fn end_transaction(&mut self, commit: bool) {
        self.shared.settings.lock().end(commit);
        self.texts.transaction_ended(commit);
        let before = self.config_before.take();
        if let Some(before) = before.filter(|_| !commit) {
            *self.context.state_ref().write().config_mut() = before;
            // What PostgreSQL's settings say is put in again.
            self.applied = 0;
        }
        self.savepoints.clear();
        self.cursors.retain(|_, (_, hold)| *hold && commit);
        self.transaction = TransactionStatus::Idle;
    }

    fn discard(&mut self, what: &str) -> Result<&'static str, Refusal> {
        match what {
            "ALL" => {
                if self.transaction != TransactionStatus::Idle {
                    let what = "DISCARD ALL cannot run inside a transaction block";
                    return Err(Refusal::new(more::ACTIVE_TRANSACTION, what));
                }
                self.shared.settings.lock().reset_all();
                self.statements.clear();
                self.cursors.clear();
                self.effects.push(Effect::DeallocateAll);
                Ok("DISCARD ALL")
            }
            "PLANS" => Ok("DISCARD PLANS"),
            "SEQUENCES" => Ok("DISCARD SEQUENCES"),
            "TEMP" | "TEMPORARY" => Ok("DISCARD TEMP"),
            other => Err(Refusal::new(
                code::SYNTAX_ERROR,
                format!("syntax error at or near \"{other}\""),
            )),
        }
    }

    /// Keeps a statement under a name.
    pub(super) fn keep_statement(&mut self, name: &str, prepared: Arc<Prepared>) -> Result<(), Refusal> {
        if self.statements.contains_key(name) {
            let what = format!("prepared statement \"{name}\" already exists");
            return Err(Refusal::new(code::DUPLICATE_STATEMENT, what));
        }
        if self.statements.len() >= NAMED_MAX {
            let what = format!("a session has {NAMED_MAX} prepared statements of SQL at most");
            return Err(
                Refusal::new(code::PROGRAM_LIMIT, what).hint("DEALLOCATE those that are no longer needed.")
            );
        }
        self.check_held(name, &prepared)?;
        self.statements.insert(name.to_owned(), prepared);
        Ok(())
    }

    /// Whether the session may keep another statement under a name.
    fn check_held(&self, name: &str, prepared: &Prepared) -> Result<(), Refusal> {
        check_name(name)?;
        let cursors = self.cursors.values().map(|(portal, _)| &portal.prepared);
        let held = self.statements.values().chain(cursors);
        let bytes: usize = held.map(|of| of.statement.text.len()).sum();
        if bytes + prepared.statement.text.len() <= NAMED_BYTES_MAX {
            return Ok(());
        }
        let what = format!(
            "the texts of a session's cursors and prepared statements of SQL have {NAMED_BYTES_MAX} bytes at most"
        );
        Err(Refusal::new(code::PROGRAM_LIMIT, what))
    }

    /// Opens a cursor; nothing runs before its first rows are fetched.
    pub(super) fn open_cursor(
        &mut self,
        name: &str,
        hold: bool,
        prepared: Arc<Prepared>,
    ) -> Result<(), Refusal> {
        if self.cursors.contains_key(name) {
            return Err(Refusal::new(
                code::DUPLICATE_CURSOR,
                format!("cursor \"{name}\" already exists"),
            ));
        }
        if self.cursors.len() >= NAMED_MAX {
            return Err(Refusal::new(
                code::PROGRAM_LIMIT,
                format!("a session has {NAMED_MAX} cursors at most"),
            ));
        }
        self.check_held(name, &prepared)?;
        let portal = Portal {
            prepared,
            parameters: Vec::new(),
            state: State::Ready,
            shown: None,
        };
        self.cursors.insert(name.to_owned(), (portal, hold));
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), Refusal> {
    match name.len() <= NAME_BYTES_MAX {
        true => Ok(()),
        false => Err(Refusal::new(
            "42622",
            format!("a name has more than {NAME_BYTES_MAX} bytes"),
        )),
    }
}

pub(super) fn unsupported(what: &str) -> Refusal {
    Refusal::new(code::NOT_SUPPORTED, format!("{what} is not supported"))
}

pub(super) fn no_cursor(name: &str) -> Refusal {
    Refusal::new(
        code::UNDEFINED_CURSOR,
        format!("cursor \"{name}\" does not exist"),
    )
}

fn kind_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Commit => "COMMIT",
        Kind::Savepoint(_) => "SAVEPOINT",
        Kind::Release(_) => "RELEASE SAVEPOINT",
        Kind::RollbackTo(_) => "ROLLBACK TO SAVEPOINT",
        _ => "ROLLBACK",
    }
}

/// The coordinator's queries by state: number, state, class, for how long, CPUs, why.
fn queue(state: Queue) -> Vec<Vec<String>> {
    let class = |class| format!("{class:?}").to_lowercase();
    let milliseconds = |ns: u64| format!("{:.1}", ns as f64 / 1e6);
    let waiting = state.waiting.iter().map(|query| {
        vec![
            query.id.0.to_string(),
            "waiting".to_owned(),
            class(query.class),
            milliseconds(query.waited_ns),
            String::new(),
            format!("overtaken {} times", query.overtaken),
        ]
    });
    let running = state.running.iter().map(|query| {
        let cpus: Vec<String> = query.cpus.iter().map(|cpu| cpu.0.to_string()).collect();
        vec![
            query.id.0.to_string(),
            "running".to_owned(),
            class(query.class),
            milliseconds(query.ran_ns),
            cpus.join(","),
            query.why.map(|why| format!("{why:?}")).unwrap_or_default(),
        ]
    });
    let lists = [
        (&state.bypassing, "short"),
        (&state.unread, "client does not read"),
        (&state.statements, "no query"),
    ];
    let others = lists
        .into_iter()
        .flat_map(|(ids, state)| ids.iter().map(move |id| vec![id.0.to_string(), state.to_owned()]));
    waiting.chain(running).chain(others).collect()
}
