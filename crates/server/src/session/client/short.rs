//! The short path of a session: which statements take it, and how they run.
//!
//! ```text
//!   a prepared statement's second run ─► compiled ─► kept with it, as long as settings, rights and definitions stay
//!   a simple query's text, lifted     ─► the second like it: prepared with parameters, if both mean the same ─► the third runs it
//!   a Parse, text and types           ─► likewise
//! ```
//!
//! Everything here that may take long or wait leaves the event loop's thread first ([`off_event_loop`]). What it is not: the path itself
//! ([`crate::short`]).

mod changes;
mod texts;

pub(in crate::session) use self::texts::ShortTexts;
use self::texts::{Text, Versions, is_frame, parse_key};
use super::ClientSession;
use super::Prepared;
use crate::session::portal::{Portal, Ran, Sink, State, Tag};
use crate::session::statement::{self, Kind};
use crate::session::store_transaction::{Isolation, StoreFailure, WOULD_WAIT};
use crate::session::writing::Written;
use crate::session::{parameters, read_scalar};
use crate::session::{refusal_of, refusal_of_datafusion};
use crate::short::{Attempt, Lifted, Reading, Short, Writing, compile, lift, may_block, off_event_loop};
use crate::write::{PlainChange, PreparedChange};
use arrow::datatypes::DataType;
use corun_store::Lock;
use corun_wire::error::Refusal;
use corun_wire::server::ResultFormats;
use corun_wire::values::Type;
use corun_wire::{TransactionStatus, build};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{GroupByExpr, SetExpr, Statement as Sql, TableFactor};
use parking_lot::Mutex;
use std::sync::Arc;

/// Types of parameters that a statement is compiled for: numbers with different digits are of different types.
const TYPES_MAX: usize = 8;
/// What the messages of a short statement take, about.
pub(super) const OUT_BYTES: usize = 256;
/// Runs that give up before a statement is no longer tried.
const GIVES_UP_MAX: u32 = 8;

/// What is known of a statement's short way.
#[derive(Debug, Default)]
pub(in crate::session) struct ShortSlot(Mutex<Slot>);

#[derive(Debug, Default)]
struct Slot {
    runs: u32,
    gave_up: u32,
    /// Of what all of it is.
    of: Option<Versions>,
    /// For parameters of these types; `None`: it has none.
    known: Vec<(Vec<DataType>, Option<Arc<Act>>)>,
}

/// A statement that takes the short path.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "each is on the heap")]
enum Act {
    Read(Short),
    /// `UPDATE` or `DELETE`, and what it returns of the rows.
    Change(Short, PlainChange, Option<Short>),
    /// `SELECT ... FOR UPDATE` or `FOR SHARE`.
    Lock(Short, Lock),
    /// `INSERT` of given values.
    Insert(Arc<PreparedChange>),
}

impl ClientSession {
    /// What compiled statements depend on now; `None`: on definitions that only this transaction sees.
    fn short_versions(&self) -> Option<Versions> {
        let versions = self.versions();
        (versions.2 != u64::MAX).then_some((versions, self.texts.planner))
    }

    /// Whether a statement is compiled.
    fn is_compiled(&self, prepared: &Prepared) -> bool {
        let Some(versions) = self.short_versions() else {
            return false;
        };
        let slot = prepared.short.0.lock();
        slot.of == Some(versions) && slot.known.iter().any(|(_, act)| act.is_some())
    }

    /// Whether what follows a statement of its own is short, too: its end.
    fn ends_quickly(&self) -> bool {
        self.transaction != TransactionStatus::Idle || !self.texts.long
    }

    /// Whether a prepared statement runs at once, without planning.
    pub(crate) fn is_short(&self, prepared: &Prepared) -> bool {
        if self.transaction == TransactionStatus::Failed {
            return false;
        }
        match &prepared.statement.kind {
            Kind::Begin(..) | Kind::Commit => !self.texts.long,
            _ => self.ends_quickly() && self.is_compiled(prepared),
        }
    }

    /// Whether a simple query does.
    pub(crate) fn is_short_text(&mut self, sql: &str) -> bool {
        if self.transaction == TransactionStatus::Failed || self.copying.is_some() {
            return false;
        }
        if is_frame(sql) {
            return !self.texts.long;
        }
        let Some(lifted) = lift(sql) else {
            return false;
        };
        let known = self.texts.entries.get(lifted.key());
        let is_short = matches!(known, Some(Text::Known(known)) if self.is_short(known));
        if is_short {
            self.texts.next = Some((sql.into(), lifted));
        }
        is_short
    }

    /// Whether a Parse finds its statement.
    pub(crate) fn is_short_parse(&self, sql: &str, types: &[u32]) -> bool {
        self.transaction != TransactionStatus::Failed && self.parsed_before(sql, types).is_some()
    }

    /// The statement of an earlier Parse of the same text.
    pub(crate) fn parsed_before(&self, sql: &str, types: &[u32]) -> Option<Arc<Prepared>> {
        let known = self.texts.entries.get(&parse_key(sql, types))?;
        match known {
            Text::Known(known) if self.is_short(known) => Some(Arc::clone(known)),
            _ => None,
        }
    }

    /// Parses and prepares a text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) async fn parse_anew(&mut self, sql: &str, types: &[u32]) -> Result<Arc<Prepared>, Refusal> {
        let parsed = self.one(sql)?;
        let statement = self.prepare(parsed, types).await?;
        self.note_parse(sql, types, &statement).await;
        Ok(statement)
    }

    /// A text was parsed and prepared: the second time it is kept, if it is short.
    async fn note_parse(&mut self, sql: &str, types: &[u32], prepared: &Arc<Prepared>) {
        if !self.may_be_short(prepared) || sql.len() > (16 << 10) {
            return;
        }
        let key = parse_key(sql, types);
        self.forget_stale();
        match self.texts.entries.get(&key) {
            None => self.texts.put(key, Text::Seen),
            Some(Text::Never) => {}
            Some(Text::Seen | Text::Known(_)) => {
                prepared.short.0.lock().runs += 1;
                let text = match self.act_of(prepared, None).await {
                    Some(_) => Text::Known(Arc::clone(prepared)),
                    None => Text::Never,
                };
                self.texts.put(key, text);
            }
        }
    }

    /// Texts were remembered while settings, rights or definitions were others.
    fn forget_stale(&mut self) {
        if let Some(versions) = self.short_versions()
            && self.texts.of != versions
        {
            self.texts.entries.clear();
            self.texts.of = versions;
        }
    }

    /// Whether it is worth a look.
    fn may_be_short(&self, prepared: &Prepared) -> bool {
        match &prepared.statement.kind {
            Kind::Planned(_) => prepared.columns.is_some(),
            Kind::Write { .. } => self.store.is_some(),
            _ => false,
        }
    }

    /// The short way of a statement that has run before, for these parameters.
    async fn act_of(
        &mut self,
        prepared: &Arc<Prepared>,
        parameters: Option<&[ScalarValue]>,
    ) -> Option<Arc<Act>> {
        let versions = self.short_versions()?;
        {
            let mut slot = prepared.short.0.lock();
            if slot.of == Some(versions) {
                let of = |(types, act): &&(Vec<DataType>, Option<Arc<Act>>)| {
                    let any = matches!(act.as_deref(), Some(Act::Insert(_)));
                    any || parameters.is_none_or(|values| {
                        values
                            .iter()
                            .map(ScalarValue::data_type)
                            .eq(types.iter().cloned())
                    })
                };
                if let Some((_, known)) = slot.known.iter().find(of) {
                    return known.clone();
                }
                if slot.known.len() >= TYPES_MAX {
                    return None;
                }
            }
            slot.runs += 1;
            if slot.runs < 2 {
                return None;
            }
        }
        off_event_loop().await;
        let types: Vec<DataType> = match parameters {
            Some(values) => values.iter().map(ScalarValue::data_type).collect(),
            None => {
                let usual = prepared.parameters.iter().map(|of| parameters::scalar(*of, None));
                let usual = usual.map(|null| null.map(|null| null.data_type()));
                usual.collect::<Result<_, _>>().ok()?
            }
        };
        let act = Box::pin(self.compiled(prepared, &types)).await.map(Arc::new);
        let mut slot = prepared.short.0.lock();
        if slot.of != Some(versions) {
            slot.of = Some(versions);
            slot.known.clear();
            slot.gave_up = 0;
        }
        slot.known.push((types, act.clone()));
        act
    }

    async fn compiled(&self, prepared: &Prepared, types: &[DataType]) -> Option<Act> {
        let text = &prepared.statement.text;
        match self.written(&prepared.statement.kind).ok()? {
            None => {
                let Kind::Planned(sql) = &prepared.statement.kind else {
                    return None;
                };
                if !is_of_one_table(sql) {
                    return None;
                }
                // What is wrong with it is told on the usual way.
                let plan = self.plan_again(prepared, sql).await.ok()?;
                compile(&plan, types, &self.context.state_ref().read()).map(Act::Read)
            }
            Some(Written::Change(sql)) => {
                let declared: Vec<u32> = prepared.parameters.iter().map(|of| of.oid()).collect();
                let change = crate::write::prepare(self, sql, &declared, text).await.ok()?;
                if change.parameters != prepared.parameters || change.columns != prepared.columns {
                    return None;
                }
                if change.inserts_values() {
                    return Some(Act::Insert(Arc::new(change)));
                }
                self.compiled_change((sql, text), &change, &declared, types).await
            }
            Some(_) => None,
        }
    }

    /// How a statement's rows are found, for `EXPLAIN`.
    pub(in crate::session) fn short_of_plan(&self, plan: &LogicalPlan) -> Option<String> {
        let short = compile(plan, &[], &self.context.state_ref().read())?;
        Some(short.to_string())
    }

    /// Runs a portal the short way; `None`: it has none, and nothing was done.
    ///
    /// # Errors
    /// Whatever fails.
    pub(in crate::session) async fn run_short(
        &mut self,
        portal: &mut Portal,
        formats: &ResultFormats,
        rows_max: Option<u32>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Ran>, Refusal> {
        let prepared = Arc::clone(&portal.prepared);
        if !self.may_be_short(&prepared) || rows_max.is_some() && prepared.columns.is_some() {
            return Ok(None);
        }
        let act = self.act_of(&prepared, Some(&portal.parameters)).await;
        let Some(act) = act else {
            return Ok(None);
        };
        let ran = loop {
            let begin = out.len();
            let ran = self
                .run_act(&act, &prepared, &portal.parameters, formats, out)
                .await;
            match ran {
                Err(refusal) if refusal.code == WOULD_WAIT => {
                    out.truncate(begin);
                    off_event_loop().await;
                }
                ran => break ran?,
            }
        };
        let Some((verb, rows)) = ran else {
            let mut slot = prepared.short.0.lock();
            slot.gave_up += 1;
            if slot.gave_up >= GIVES_UP_MAX {
                slot.known.iter_mut().for_each(|(_, act)| *act = None);
            }
            return Ok(None);
        };
        self.work.short = true;
        if let Some(coordinator) = &self.engine.coordinator {
            coordinator.transacted();
        }
        if prepared.columns.is_some() {
            self.work.rows += rows;
            portal.state = State::Done(Tag::Counted(verb));
        } else {
            portal.state = State::Done(Tag::Plain("ERROR"));
        }
        Ok(Some(Ran::Complete(format!("{verb} {rows}"))))
    }

    /// Verb and rows; `None`: it gives up, and nothing was done.
    async fn run_act(
        &mut self,
        act: &Act,
        prepared: &Prepared,
        parameters: &[ScalarValue],
        formats: &ResultFormats,
        out: &mut Vec<u8>,
    ) -> Result<Option<(&'static str, u64)>, Refusal> {
        let zone = self.zone();
        let how = Writing {
            columns: prepared.columns.as_deref().unwrap_or_default(),
            formats,
            zone: &zone,
        };
        match act {
            Act::Read(short) if short.takes(parameters) => {
                let attempt = self.read_short(short, parameters, how, out)?;
                Ok(match attempt {
                    Attempt::Done(rows) => Some(("SELECT", rows)),
                    Attempt::GivesUp => None,
                })
            }
            Act::Change(short, change, returned) if short.takes(parameters) => {
                self.check_writes(change.verb())?;
                let returned = returned.as_ref().map(|of| (of, how));
                let rows = self.change_short(short, change, returned, parameters, out)?;
                Ok(rows.map(|rows| (change.verb(), rows)))
            }
            Act::Lock(short, lock) if short.takes(parameters) => {
                self.check_writes("SELECT FOR UPDATE")?;
                let rows = self.lock_short(short, *lock, how, parameters, out)?;
                Ok(rows.map(|rows| ("SELECT", rows)))
            }
            Act::Insert(change) => {
                self.check_writes("INSERT")?;
                // In a box: it may be any other change, too.
                let changed = Box::pin(change.run(self, parameters)).await?;
                Ok(Some((changed.verb, changed.rows)))
            }
            Act::Read(_) | Act::Change(..) | Act::Lock(..) => Ok(None),
        }
    }

    fn read_short(
        &mut self,
        short: &Short,
        parameters: &[ScalarValue],
        how: Writing<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Attempt, Refusal> {
        let moment = match &mut self.store {
            Some(store) if store.isolation() == Isolation::Serializable => {
                return store.run_reading(|transaction| {
                    let from = Reading::Locked(transaction);
                    short.read(from, parameters, how, out)
                });
            }
            Some(store) => store.read_moment(&[])?,
            None => None,
        };
        let read = match &moment {
            Some(moment) => short.read(Reading::At(moment), parameters, how, out),
            None => {
                let now = short
                    .store
                    .durable_snapshot()
                    .map_err(|error| refusal_of(&error))?;
                short.read(Reading::At(&now), parameters, how, out)
            }
        };
        read.map_err(StoreFailure::refusal)
    }

    /// The statement and the parameters of a simple query whose text was seen before; `None`: it runs as it is.
    pub(in crate::session) async fn lifted(
        &mut self,
        sql: &str,
    ) -> Option<(Arc<str>, Arc<Prepared>, Vec<ScalarValue>)> {
        if self.transaction == TransactionStatus::Failed {
            return None;
        }
        if is_frame(sql) {
            let (text, frame) = self.texts.frame(sql)?;
            return Some((text, frame, Vec::new()));
        }
        self.store.as_ref()?;
        let (text, lifted) = match self.texts.next.take() {
            Some((text, lifted)) if *text == *sql => (text, lifted),
            _ => (sql.into(), lift(sql)?),
        };
        self.apply_settings();
        self.short_versions()?;
        self.forget_stale();
        let known = match self.texts.entries.get(lifted.key()) {
            Some(Text::Known(known)) if self.is_compiled(known) => Arc::clone(known),
            Some(Text::Never | Text::Known(_)) => return None,
            Some(Text::Seen) => {
                off_event_loop().await;
                let learnt = Box::pin(self.learn(sql, &lifted)).await;
                let text = match &learnt {
                    Some(known) => Text::Known(Arc::clone(known)),
                    None => Text::Never,
                };
                self.texts.put(lifted.key().to_owned(), text);
                learnt?
            }
            None => {
                self.texts.put(lifted.key().to_owned(), Text::Seen);
                return None;
            }
        };
        let parameters = self.literals(&lifted, &known)?;
        Some((text, known, parameters))
    }

    /// The values of literals; `None`: the text itself says what is wrong with one.
    fn literals(&self, lifted: &Lifted, known: &Prepared) -> Option<Vec<ScalarValue>> {
        let zone = self.zone();
        let values = lifted.values.iter().zip(&known.parameters);
        let read = values.map(|(literal, of)| match lifted.is_insert {
            true => read_scalar(*of, &literal.text(), &zone),
            false => literal.scalar(*of, &zone),
        });
        read.collect()
    }

    /// Prepares a text with parameters in the place of its literals, if that means the same and is short.
    async fn learn(&mut self, sql: &str, lifted: &Lifted) -> Option<Arc<Prepared>> {
        let original = statement::one(sql).ok()?;
        let with_parameters = statement::one(lifted.text()).ok()?;
        if let Kind::Planned(sql) = &original.kind
            && !is_of_one_table(sql)
        {
            return None;
        }
        self.constants.begin();
        let mut types = lifted.types();
        if types.contains(&Type::INT4.oid()) {
            // Beside a `bigint` an integer is one.
            let open = vec![0; types.len()];
            let found = self.prepared(&with_parameters, &open).await.ok()?;
            for (of, found) in types.iter_mut().zip(&found.parameters) {
                if *of == Type::INT4.oid() && *found == Type::INT8 {
                    *of = found.oid();
                }
            }
        }
        let known = self.prepared(&with_parameters, &types).await.ok()?;
        let as_it_came = self.prepared(&original, &[]).await.ok()?;
        if known.columns != as_it_came.columns
            || known.parameters.len() != lifted.values.len()
            || !as_it_came.parameters.is_empty()
        {
            return None;
        }
        let alike = match lifted.is_insert {
            true => {
                let mut pairs = lifted.values.iter().zip(&known.parameters);
                pairs.all(|(literal, of)| literal.may_be_inserted_as(*of))
            }
            false => {
                let mut declared = types.iter().zip(&known.parameters);
                let as_declared = declared.all(|(of, found)| *of == 0 || *of == found.oid());
                let values = self.literals(lifted, &known)?;
                let plans = (self.plan_of(&known), self.plan_of(&as_it_came));
                match plans {
                    (Some(with), Some(came)) => as_declared && self.are_alike(with, came, &values),
                    _ => false,
                }
            }
        };
        if !alike {
            return None;
        }
        known.short.0.lock().runs = 1;
        self.act_of(&known, Some(&self.literals(lifted, &known)?)).await?;
        Some(known)
    }

    /// The plan that a statement was prepared with.
    fn plan_of(&self, prepared: &Prepared) -> Option<LogicalPlan> {
        if let Some((_, change)) = &prepared.change {
            return change.plain().map(|(plan, _)| plan.clone());
        }
        let kept = prepared.plan.lock();
        kept.as_ref().map(|kept| kept.plan.clone())
    }

    /// Whether a plan with these values in the place of its parameters is the other one, but for names that clients do not see.
    fn are_alike(&self, with: LogicalPlan, came: LogicalPlan, values: &[ScalarValue]) -> bool {
        let bound = with.replace_params_with_values(&ParamValues::from(values.to_vec()));
        let state = self.context.state_ref();
        let state = state.read();
        let analyzed = |plan: LogicalPlan| {
            let analyzer = state.analyzer();
            analyzer.execute_and_check(plan, state.config_options(), |_, _| {})
        };
        let failed = |error| refusal_of_datafusion(&error, "");
        let both = bound.and_then(with_digits_of_parameters).and_then(analyzed);
        let came = with_digits_of_parameters(came).and_then(analyzed);
        let both = both.and_then(|one| Ok((one, came?))).map_err(failed);
        both.is_ok_and(|(one, other)| same_but_names(&one, &other))
    }

    /// Runs a simple query that was lifted.
    ///
    /// # Errors
    /// Whatever fails.
    pub(in crate::session) async fn simple_lifted(
        &mut self,
        (text, prepared, parameters): (Arc<str>, Arc<Prepared>, Vec<ScalarValue>),
        sink: &mut impl Sink,
    ) -> Result<(), Refusal> {
        let running = self.running(&text);
        let mut sink = crate::session::portal::Counted::new(sink);
        let mut out = Vec::with_capacity(OUT_BYTES);
        if let Some(columns) = &prepared.columns {
            build::row_description_of(&mut out, columns, &ResultFormats::default());
        }
        let portal = Portal {
            prepared,
            parameters,
            state: State::Ready,
            shown: Some(text),
        };
        let ran = self.simple_portal(portal, true, &mut out, &mut sink).await;
        self.work.bytes = sink.bytes;
        running.end(&self.work, ran.as_ref().err().map(|refusal| refusal.code));
        match ran {
            Ok(_) => Ok(()),
            Err(mut refusal) => {
                self.fail_implicit();
                // It would be one in the lifted text.
                refusal.position = None;
                Err(refusal)
            }
        }
    }

    /// What is not short runs on a thread that may block.
    pub(in crate::session) async fn leave_short_path(&mut self) {
        self.texts.long = true;
        if !may_block() {
            off_event_loop().await;
        }
    }
}

/// Whether a query may be a look-up, by its words: before it is planned for that.
fn is_of_one_table(statement: &Statement) -> bool {
    let Statement::Statement(sql) = statement else {
        return false;
    };
    let Sql::Query(query) = sql.as_ref() else {
        return false;
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        return false;
    };
    let [from] = select.from.as_slice() else {
        return false;
    };
    let ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    query.with.is_none()
        && from.joins.is_empty()
        && matches!(
            from.relation,
            TableFactor::Table { args: None, .. } | TableFactor::Derived { .. }
        )
        && ungrouped
        && select.having.is_none()
        && select.distinct.is_none()
}

/// A plan whose numbers have as many digits behind the point as parameters have.
fn with_digits_of_parameters(plan: LogicalPlan) -> Result<LogicalPlan, DataFusionError> {
    let number = |of: Expr| {
        Ok(match of {
            Expr::Literal(value @ ScalarValue::Decimal128(Some(_), _, ..=10), metadata) => {
                let value = value.cast_to(&DataType::Decimal128(38, parameters::SCALE))?;
                Transformed::yes(Expr::Literal(value, metadata))
            }
            other => Transformed::no(other),
        })
    };
    plan.transform_down_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expression| {
            let name = names.save(&expression);
            let changed = expression.transform_up(number)?;
            Ok(changed.update_data(|of| name.restore(of)))
        })
    })
    .data()
}

/// Whether two plans are equal but for the names of the columns at the top.
fn same_but_names(one: &LogicalPlan, other: &LogicalPlan) -> bool {
    let (LogicalPlan::Projection(one), LogicalPlan::Projection(other)) = (one, other) else {
        return one == other;
    };
    fn bare(of: &Expr) -> &Expr {
        match of {
            Expr::Alias(alias) => bare(&alias.expr),
            of => of,
        }
    }
    let types = |plan: &datafusion::logical_expr::Projection| -> Vec<_> {
        let fields = plan.schema.fields().iter();
        fields.map(|field| field.data_type().clone()).collect()
    };
    one.input == other.input
        && types(one) == types(other)
        && one.expr.iter().map(bare).eq(other.expr.iter().map(bare))
}
