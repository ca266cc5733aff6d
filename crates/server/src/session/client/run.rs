//! A client's statements are run: what [`ClientSession::run`] and [`ClientSession::simple`] do.

use super::short::OUT_BYTES;
use super::{ClientSession, Prepared};
use crate::catalog::shown;
use crate::session::commands::{lines, no_cursor};
use crate::session::error::{self, more};
use crate::session::one_row;
use crate::session::parameters;
use crate::session::plan::Planned;
use crate::session::portal::{
    Counted, Encoding, Limits, Portal, Ran, Rows, Sink, Source, State, Tag, To, copy_end, copy_frame,
};
use crate::session::share::Turn;
use crate::session::statement::Kind;
use crate::session::values::columns_of;
use corun_datafusion::{Owner, Stop, execute_apart, is_query, stoppable};
use corun_wire::TransactionStatus;
use corun_wire::error::{Refusal, code};
use corun_wire::server::ResultFormats;
use corun_wire::values::{CopyOut, Type};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::displayable;
use datafusion::sql::parser::Statement;
use futures::StreamExt;
use parking_lot::Mutex;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// How long a plan of tables is as good as a new one: a client binds and executes what it has prepared.
const KEPT_FOR: Duration = Duration::from_secs(1);

impl ClientSession {
    /// Runs a portal: DataRow messages (or all messages of a COPY) go to the sink.
    ///
    /// # Errors
    /// Whatever fails; 57014 when cancelled.
    pub async fn run(
        &mut self,
        portal: &mut Portal,
        formats: &ResultFormats,
        rows_max: Option<u32>,
        sink: &mut impl Sink,
    ) -> Result<Ran, Refusal> {
        let running = self.running(&portal.prepared.statement.text);
        self.note_parameters(&portal.parameters);
        let mut sink = Counted::new(sink);
        let ran = self.run_and_flush(portal, formats, rows_max, &mut sink).await;
        self.work.bytes = sink.bytes;
        running.end(&self.work, ran.as_ref().err().map(|refusal| refusal.code));
        ran
    }

    async fn run_and_flush(
        &mut self,
        portal: &mut Portal,
        formats: &ResultFormats,
        rows_max: Option<u32>,
        sink: &mut impl Sink,
    ) -> Result<Ran, Refusal> {
        let mut out = Vec::with_capacity(OUT_BYTES);
        let ran = self.run_into(portal, formats, rows_max, &mut out, sink).await?;
        self.flush(&mut out, sink).await?;
        Ok(ran)
    }

    /// Keeps the values of parameters for the log, if they are to be in there.
    fn note_parameters(&mut self, parameters: &[ScalarValue]) {
        let log = self.engine.statements.log();
        if log.parameters && log.min_duration.is_some() && !parameters.is_empty() {
            let values: Vec<String> = parameters.iter().map(ToString::to_string).collect();
            self.work.parameters = Some(values.join(", "));
        }
    }

    /// Sends what is left of a statement that has ended; a cancel still counts.
    pub(super) async fn flush(&mut self, out: &mut Vec<u8>, sink: &mut impl Sink) -> Result<(), Refusal> {
        if out.is_empty() {
            return Ok(());
        }
        let limits = Limits::new(self.cancel.begin(), None);
        let flushed = limits.flush(out, sink).await;
        if flushed.is_err() {
            self.fail_transaction();
        }
        flushed
    }

    /// The same; what is left at the end is in `out`, behind what it had.
    pub(super) async fn run_into(
        &mut self,
        portal: &mut Portal,
        formats: &ResultFormats,
        rows_max: Option<u32>,
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<Ran, Refusal> {
        let prepared = Arc::clone(&portal.prepared);
        let statement = &prepared.statement;
        let limits = self.begin(portal.shown.as_ref().unwrap_or(&statement.text));
        let ran = match self.check_transaction(&statement.kind) {
            Ok(()) => {
                self.run_limited(portal, formats, rows_max, &limits, out, sink)
                    .await
            }
            Err(refusal) => Err(refusal),
        };
        drop(limits);
        if let State::Rows(rows) = &mut portal.state {
            rows.account(&mut self.work);
        }
        if ran.is_err() {
            // What ran ends now, not when the portal is closed.
            portal.state = State::Done(Tag::Plain("ERROR"));
        }
        self.ended(ran, statement)
    }

    async fn run_limited(
        &mut self,
        portal: &mut Portal,
        formats: &ResultFormats,
        rows_max: Option<u32>,
        limits: &Limits,
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<Ran, Refusal> {
        if let State::Ready = portal.state {
            if let Some(ran) = limits
                .limited(self.run_short(portal, formats, rows_max, out))
                .await?
            {
                return Ok(ran);
            }
            let prepared = Arc::clone(&portal.prepared);
            if prepared.statement.kind.is_quick()
                && let Some(tag) = limits
                    .limited(self.change_transaction(&prepared.statement.kind))
                    .await?
            {
                portal.state = State::Done(Tag::Plain(tag));
                return Ok(Ran::Complete(tag.to_owned()));
            }
        }
        Box::pin(self.run_long(portal, formats, rows_max, limits, out, sink)).await
    }

    /// What is neither short nor begins or ends a transaction, or goes on.
    async fn run_long(
        &mut self,
        portal: &mut Portal,
        formats: &ResultFormats,
        rows_max: Option<u32>,
        limits: &Limits,
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<Ran, Refusal> {
        let prepared = Arc::clone(&portal.prepared);
        let statement = &prepared.statement;
        if let Kind::Fetch { name, rows } = &statement.kind {
            return self.fetch(name, *rows, formats, limits, out, sink).await;
        }
        if let State::Ready = portal.state {
            match &statement.kind {
                Kind::Empty => return Ok(Ran::Empty),
                Kind::Prepare { name, types, of } => {
                    let inner = limits.limited(self.prepared(of, types)).await?;
                    self.keep_statement(name, inner)?;
                    return Ok(Ran::Complete("PREPARE".to_owned()));
                }
                Kind::Declare { name, hold, of } => {
                    if !hold && self.transaction == TransactionStatus::Idle {
                        let what = "DECLARE CURSOR can only be used in transaction blocks";
                        return Err(Refusal::new(more::NO_TRANSACTION, what));
                    }
                    let inner = limits.limited(self.prepared(of, &[])).await?;
                    self.open_cursor(name, *hold, inner)?;
                    return Ok(Ran::Complete("DECLARE CURSOR".to_owned()));
                }
                _ => {}
            }
            self.leave_short_path().await;
            if let Some(tag) = limits.limited(self.change_transaction(&statement.kind)).await? {
                portal.state = State::Done(Tag::Plain(tag));
                return Ok(Ran::Complete(tag.to_owned()));
            }
            if let Kind::CopyIn(into) = &statement.kind {
                return limits.limited(self.begin_copy(into)).await;
            }
            if let Some((tag, rows)) = limits
                .limited(self.run_written(&prepared, &portal.parameters))
                .await?
            {
                match rows {
                    None => {
                        portal.state = State::Done(Tag::Plain("ERROR"));
                        return Ok(Ran::Complete(tag));
                    }
                    Some(mut rows) => {
                        rows.tag = Tag::Text(tag.into());
                        portal.state = State::Rows(Box::new(rows));
                    }
                }
            } else {
                match limits.limited(self.start(&prepared, &portal.parameters)).await? {
                    Some(rows) => portal.state = State::Rows(Box::new(rows)),
                    None => {
                        let tag = self.command(statement)?;
                        portal.state = State::Done(Tag::Plain(tag));
                        return Ok(Ran::Complete(tag.to_owned()));
                    }
                }
            }
        }
        let rows = match &mut portal.state {
            State::Rows(rows) => rows,
            State::Done(Tag::Counted(verb)) => return Ok(Ran::Complete(format!("{verb} 0"))),
            _ => return Err(Refusal::new(code::NOT_NOW, "the portal cannot be run again")),
        };
        let zone = self.shared.settings.lock().zone();
        let tag = match (&statement.kind, &prepared.columns) {
            (Kind::CopyOut { options, .. }, _) => {
                let copy = CopyOut::new(options.clone());
                let schema = rows.schema();
                let names: Vec<&str> = schema.fields().iter().map(|field| shown(field.name())).collect();
                copy_frame(out, &copy, options.format, names.into_iter());
                let how = Encoding {
                    zone,
                    columns: &columns_of(&schema),
                    to: To::Copy(copy.clone(), options.format),
                };
                rows.send(&how, None, &statement.text, limits, out, sink).await?;
                copy_end(out, &copy, rows.sent());
                rows.tag(0)
            }
            (_, None) => {
                let count = rows.count(&statement.text, limits).await?;
                rows.tag(count)
            }
            (_, Some(columns)) => {
                let to = To::DataRows(formats);
                let how = Encoding { zone, columns, to };
                if !rows
                    .send(&how, rows_max, &statement.text, limits, out, sink)
                    .await?
                {
                    return Ok(Ran::Suspended);
                }
                rows.tag(0)
            }
        };
        rows.account(&mut self.work);
        portal.state = State::Done(rows.tag.clone());
        Ok(Ran::Complete(tag))
    }

    /// Starts what returns rows; `None`: it is a command.
    async fn start(
        &mut self,
        prepared: &Prepared,
        parameters: &[ScalarValue],
    ) -> Result<Option<Rows>, Refusal> {
        let statement = &prepared.statement;
        let rows = match &statement.kind {
            Kind::Planned(sql) => {
                let plan = self.plan_again(prepared, sql).await?;
                if matches!(plan, LogicalPlan::Statement(_)) {
                    self.texts.planner_changed();
                }
                let tag = tag_of(&plan, sql);
                Rows::new(self.source(plan, parameters, &statement.text).await?, tag)
            }
            Kind::CopyOut { query, .. } => {
                let plan = self.plan_again(prepared, query).await?;
                Rows::new(self.source(plan, &[], "").await?, Tag::Counted("COPY"))
            }
            Kind::Explain { analyze, of } => {
                let Kind::Planned(sql) = &of.kind else {
                    return Err(Refusal::new(code::NOT_SUPPORTED, "EXPLAIN is for queries only"));
                };
                let plan = bound(self.plan_again(prepared, sql).await?, parameters)?;
                self.begin_reading(&plan)?;
                let short = self.short_of_plan(&plan);
                let text = match analyze {
                    true => self.explain_analyze(plan).await?,
                    false => self.explain(&plan).await?,
                };
                let text = match short {
                    Some(short) => format!("{short}\n{text}"),
                    None => text,
                };
                Rows::new(Source::Made(Some(lines(&text)?)), Tag::Plain("EXPLAIN"))
            }
            Kind::Show(_) | Kind::ShowAll | Kind::ShowQueue => {
                let batch = self.made(&statement.kind)?;
                Rows::new(Source::Made(Some(batch)), Tag::Plain("SHOW"))
            }
            Kind::Execute { name, arguments } => {
                let inner = Arc::clone(self.named(name)?);
                let Kind::Planned(sql) = &inner.statement.kind else {
                    return Err(Refusal::new(code::NOT_SUPPORTED, "EXECUTE is for queries only"));
                };
                let parameters = self
                    .arguments(name, &inner.parameters, arguments.as_deref())
                    .await?;
                let plan = self.plan_again(&inner, sql).await?;
                let tag = tag_of(&plan, sql);
                Rows::new(self.source(plan, &parameters, "").await?, tag)
            }
            _ => return Ok(None),
        };
        Ok(Some(rows))
    }

    /// The arguments of an EXECUTE, which are expressions without columns.
    pub(in crate::session) async fn arguments(
        &self,
        name: &str,
        types: &[Type],
        given: Option<&Statement>,
    ) -> Result<Vec<ScalarValue>, Refusal> {
        let count = |given: usize| {
            let what = format!("wrong number of parameters for prepared statement \"{name}\"");
            Refusal::new(code::SYNTAX_ERROR, what)
                .detail(format!("Expected {} parameters but got {given}.", types.len()))
        };
        let Some(statement) = given else {
            return if types.is_empty() {
                Ok(Vec::new())
            } else {
                Err(count(0))
            };
        };
        let failed = |error| error::refusal(&error, "");
        let Planned { plan, .. } = self.plan(statement, &[], "").await?;
        if !one_row::is_one_row(&plan) {
            let what = "arguments of EXECUTE are values, not queries";
            return Err(Refusal::new(code::NOT_SUPPORTED, what));
        }
        let frame = self.context.execute_logical_plan(plan).await.map_err(failed)?;
        let batches = frame.collect().await.map_err(failed)?;
        let batch = batches.first().ok_or_else(|| count(0))?;
        if batch.num_columns() != types.len() {
            return Err(count(batch.num_columns()));
        }
        let scalars = batch.columns().iter().zip(types).map(|(column, of)| {
            let wanted = parameters::scalar(*of, None)?.data_type();
            let value = ScalarValue::try_from_array(column, 0).map_err(failed)?;
            value.cast_to(&wanted).map_err(failed)
        });
        scalars.collect()
    }

    /// The plan that was made when it was prepared, or a new one that returns the same columns.
    pub(super) async fn plan_again(
        &self,
        prepared: &Prepared,
        sql: &Statement,
    ) -> Result<LogicalPlan, Refusal> {
        if let Some(plan) = self.kept_plan(prepared) {
            return Ok(plan);
        }
        let types: Vec<u32> = prepared.parameters.iter().map(|of| of.oid()).collect();
        let Planned { plan, .. } = self.plan(sql, &types, &prepared.statement.text).await?;
        if matches!(prepared.statement.kind, Kind::Planned(_))
            && let Some(columns) = &prepared.columns
            && *columns != self.columns(&plan)?
        {
            return Err(Refusal::new(
                code::NOT_SUPPORTED,
                "cached plan must not change result type",
            ));
        }
        Ok(plan)
    }

    /// The plan that was made when it was prepared, if it still holds. One that names tables is taken once and soon, since files change.
    fn kept_plan(&self, prepared: &Prepared) -> Option<LogicalPlan> {
        let mut slot = prepared.plan.lock();
        let kept = slot.take().filter(|kept| kept.of == self.versions())?;
        if one_row::is_one_row(&kept.plan) {
            return Some(slot.insert(kept).plan.clone());
        }
        (kept.made.elapsed() < KEPT_FOR).then_some(kept.plan)
    }

    /// Starts a plan, at the moment that the transaction reads now.
    async fn source(
        &mut self,
        plan: LogicalPlan,
        parameters: &[ScalarValue],
        text: &str,
    ) -> Result<Source, Refusal> {
        self.begin_reading(&plan)?;
        self.source_at(plan, parameters, text).await
    }

    /// Starts a plan: a query at the coordinator, anything else in the session.
    pub(in crate::session) async fn source_at(
        &self,
        plan: LogicalPlan,
        parameters: &[ScalarValue],
        text: &str,
    ) -> Result<Source, Refusal> {
        let plan = bound(plan, parameters)?;
        let answer = one_row::answer(&plan, &self.context.state_ref().read());
        if answer.is_some() {
            return Ok(Source::Made(answer));
        }
        let turn = self.turn().await?;
        if let Some(coordinator) = self.engine.coordinator.as_ref().filter(|_| is_query(&plan)) {
            let submitted = coordinator
                .submit_plan_of(self.owner(), &self.context, plan)
                .await;
            let submitted = submitted.map_err(|error| error::of_engine(&error, text))?;
            self.engine.statements.scheduled(submitted.decision().class);
            self.shared.submitted(submitted.id());
            return Ok(Source::Coordinated(submitted, turn));
        }
        let failed = |error| Refusal {
            position: None,
            ..error::refusal(&error, text)
        };
        let frame = self.context.execute_logical_plan(plan).await.map_err(failed)?;
        let task = Arc::new(frame.task_ctx());
        let (plan, stop) = (
            frame.create_physical_plan().await.map_err(failed)?,
            Stop::default(),
        );
        // What is started here, and what that starts.
        let _operators = self.engine.operators().enter();
        let rows = stoppable(plan, &stop).and_then(|plan| execute_apart(plan, stop, task));
        Ok(Source::Session(Mutex::new(rows.map_err(failed)?), turn))
    }

    /// A place among the queries of the user that run at a time, if these are limited.
    async fn turn(&self) -> Result<Option<Arc<Turn>>, Refusal> {
        let Some(most) = self.engine.rights.limits(&self.shared.who.user).queries else {
            return Ok(None);
        };
        let another = self.turns.lock().another(&self.share, most);
        let another = another.map_err(|()| {
            let what = format!("this user may run {most} queries at a time, and they run");
            Refusal::new("53400", what).hint("Close cursors of this session that are no longer needed.")
        })?;
        if another.is_some() {
            return Ok(another);
        }
        let turn = self.share.turn(most).await;
        self.turns.lock().add(&turn);
        Ok(Some(turn))
    }

    /// Whose its queries are, and how many turns these get.
    fn owner(&self) -> Owner {
        let user = &self.shared.who.user;
        let mut id = DefaultHasher::new();
        user.hash(&mut id);
        Owner {
            id: id.finish(),
            weight: self.engine.rights.limits(user).weight,
        }
    }

    /// Rows of a cursor.
    async fn fetch(
        &mut self,
        name: &str,
        rows_max: Option<u32>,
        formats: &ResultFormats,
        limits: &Limits,
        out: &mut Vec<u8>,
        sink: &mut impl Sink,
    ) -> Result<Ran, Refusal> {
        let (mut portal, hold) = self.cursors.remove(name).ok_or_else(|| no_cursor(name))?;
        if let State::Ready = portal.state {
            let prepared = Arc::clone(&portal.prepared);
            let started = limits.limited(self.start(&prepared, &[])).await?;
            portal.state = started.map_or(State::Done(Tag::Counted("FETCH")), |rows| {
                State::Rows(Box::new(rows))
            });
        }
        let mut fetched = 0;
        if let State::Rows(rows) = &mut portal.state {
            let zone = self.shared.settings.lock().zone();
            let to = To::DataRows(formats);
            let columns = portal.prepared.columns.as_deref().unwrap_or_default();
            let before = rows.sent();
            let ended = rows
                .send(
                    &Encoding { zone, columns, to },
                    rows_max,
                    &portal.prepared.statement.text,
                    limits,
                    out,
                    sink,
                )
                .await;
            rows.account(&mut self.work);
            fetched = rows.sent() - before;
            if ended? {
                portal.state = State::Done(Tag::Counted("FETCH"));
            }
        }
        self.cursors.insert(name.to_owned(), (portal, hold));
        Ok(Ran::Complete(format!("FETCH {fetched}")))
    }

    async fn explain(&self, plan: &LogicalPlan) -> Result<String, Refusal> {
        if let Some(coordinator) = &self.engine.coordinator {
            let text = coordinator.explain_plan(&self.context, plan).await;
            return text.map_err(|error| error::of_engine(&error, ""));
        }
        let physical = self.context.state().create_physical_plan(plan).await;
        let physical = physical.map_err(|error| error::refusal(&error, ""))?;
        Ok(displayable(physical.as_ref()).indent(false).to_string())
    }

    /// Runs the query, throws its rows away, and says what came of it.
    async fn explain_analyze(&self, plan: LogicalPlan) -> Result<String, Refusal> {
        let Some(coordinator) = &self.engine.coordinator else {
            let failed = |error| error::refusal(&error, "");
            let physical = self
                .context
                .state()
                .create_physical_plan(&plan)
                .await
                .map_err(failed)?;
            let stop = Stop::default();
            let physical = stoppable(physical, &stop).map_err(failed)?;
            let task = self.context.task_ctx();
            let mut rows = {
                let _operators = self.engine.operators().enter();
                execute_apart(Arc::clone(&physical), stop, task).map_err(failed)?
            };
            while let Some(batch) = rows.next().await {
                batch.map_err(failed)?;
            }
            let shown = DisplayableExecutionPlan::with_metrics(physical.as_ref());
            return Ok(shown.indent(false).to_string());
        };
        let failed = |error| error::of_engine(&error, "");
        let text = coordinator
            .explain_plan(&self.context, &plan)
            .await
            .map_err(failed)?;
        let _turn = self.turn().await?;
        let mut submitted = coordinator
            .submit_plan_of(self.owner(), &self.context, plan)
            .await
            .map_err(failed)?;
        while let Some(batch) = submitted.next().await {
            batch.map_err(failed)?;
        }
        let Some(report) = submitted.report() else {
            return Ok(text);
        };
        let cpus: Vec<String> = report.cpus.iter().map(|cpu| cpu.0.to_string()).collect();
        let cpus = if cpus.is_empty() {
            "shared".to_owned()
        } else {
            cpus.join(",")
        };
        let milliseconds = |ns: u64| ns as f64 / 1e6;
        let mut said = format!(
            "rows: {}\nwaited: {:.3} ms\nran: {:.3} ms\ncpus: {cpus}\n",
            report.rows,
            milliseconds(report.waited_ns),
            milliseconds(report.ran_ns)
        );
        if let Some(why) = report.why {
            said.push_str(&format!("started because: {why:?}\n"));
        }
        Ok(said + &text)
    }
}

/// Puts values in the place of parameters.
fn bound(plan: LogicalPlan, parameters: &[ScalarValue]) -> Result<LogicalPlan, Refusal> {
    if parameters.is_empty() {
        return Ok(plan);
    }
    let values = ParamValues::from(parameters.to_vec());
    plan.replace_params_with_values(&values)
        .map_err(|error| error::refusal(&error, ""))
}

pub(super) fn returns_rows(plan: &LogicalPlan) -> bool {
    !matches!(
        plan,
        LogicalPlan::Ddl(_) | LogicalPlan::Dml(_) | LogicalPlan::Copy(_) | LogicalPlan::Statement(_)
    )
}

fn tag_of(plan: &LogicalPlan, sql: &Statement) -> Tag {
    match plan {
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(_)) => Tag::Plain("CREATE TABLE"),
        LogicalPlan::Ddl(_) => Tag::Plain("DROP TABLE"),
        LogicalPlan::Copy(_) => Tag::Copied,
        LogicalPlan::Statement(_) if matches!(sql, Statement::Reset(_)) => Tag::Plain("RESET"),
        LogicalPlan::Statement(_) => Tag::Plain("SET"),
        _ => Tag::Counted("SELECT"),
    }
}
