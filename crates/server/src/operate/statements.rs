//! [`Statements`]: every statement is counted when it ends, and slow ones are logged.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_model::cache::locality::Locality;
use corun_model::cpulist;
use corun_model::server_status::{SlowStatement, StatementTotals};
use corun_model::units::CpuId;
use corun_net::metrics::Histogram;
use corun_wire::error::code;
use parking_lot::Mutex;

use super::text::shown;

/// Bytes of a statement's text, or of its parameters, in the log.
const LOGGED_BYTES_MAX: usize = 2 << 10;
/// Slow statements that the page shows.
const SLOW_MAX: usize = 20;
/// What counts as slow for the page where nothing is logged.
const SLOW: Duration = Duration::from_secs(1);

/// What is logged of statements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatementLog {
    /// Statements that take at least so long are logged; `None`: none is.
    pub min_duration: Option<Duration>,
    /// Whether with the values of their parameters.
    pub parameters: bool,
}

/// Whose statements they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionName {
    /// The user.
    pub user: String,
    /// The database.
    pub database: String,
    /// The session's number.
    pub pid: u32,
    /// The client's address, or `[local]`.
    pub from: String,
}

/// Counts of all statements of a server.
#[derive(Debug, Default)]
pub struct Statements {
    log: StatementLog,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    totals: StatementTotals,
    /// Of these, those that took the short path.
    short: u64,
    /// In microseconds.
    times: Histogram,
    errors: BTreeMap<&'static str, u64>,
    /// With the time of their end, the newest first.
    slow: VecDeque<(Instant, SlowStatement)>,
}

/// What a statement did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// Rows sent.
    pub rows: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Whether it took the short path.
    pub short: bool,
    /// Its locality, if the coordinator had it.
    pub class: Option<Locality>,
    /// Its time in the queue, if the coordinator ran it to its end.
    pub waited: Option<Duration>,
    /// The CPUs that it ran on, if it had any of its own.
    pub cpus: Vec<CpuId>,
    /// Its parameters, where they are to be logged.
    pub parameters: Option<String>,
}

/// A statement that runs. It is counted by [`Running::end`]; dropped before, as that of a client that has gone.
#[derive(Debug)]
pub struct Running {
    statements: Arc<Statements>,
    session: Arc<SessionName>,
    text: Arc<str>,
    begun: Instant,
    is_open: bool,
}

impl Statements {
    /// Nothing was counted yet.
    pub fn new(log: StatementLog) -> Self {
        Self {
            log,
            state: Mutex::default(),
        }
    }

    /// What is logged.
    pub fn log(&self) -> StatementLog {
        self.log
    }

    /// A statement has begun.
    pub fn begin(self: &Arc<Self>, session: &Arc<SessionName>, text: Arc<str>, begun: Instant) -> Running {
        Running {
            statements: Arc::clone(self),
            session: Arc::clone(session),
            text,
            begun,
            is_open: true,
        }
    }

    /// The coordinator has taken a query of this class.
    pub fn scheduled(&self, class: Locality) {
        self.state.lock().totals.by_class[class as usize] += 1;
    }

    /// Counts since the start.
    pub fn totals(&self) -> StatementTotals {
        self.state.lock().totals
    }

    /// Statements that took the short path.
    pub fn short(&self) -> u64 {
        self.state.lock().short
    }

    /// How long statements took, in microseconds.
    pub fn times(&self) -> Histogram {
        self.state.lock().times.clone()
    }

    /// Statements that did not complete, by SQLSTATE.
    pub fn errors(&self) -> Vec<(&'static str, u64)> {
        let state = self.state.lock();
        state.errors.iter().map(|(code, count)| (*code, *count)).collect()
    }

    /// The last slow ones, the newest first.
    pub fn slow(&self) -> Vec<SlowStatement> {
        let state = self.state.lock();
        let slow = state.slow.iter().map(|(ended, statement)| SlowStatement {
            ago_s: ended.elapsed().as_secs_f64(),
            ..statement.clone()
        });
        slow.collect()
    }

    fn count(
        &self,
        took: Duration,
        work: &Work,
        sqlstate: Option<&'static str>,
        slow: Option<SlowStatement>,
    ) {
        let mut state = self.state.lock();
        let totals = &mut state.totals;
        match sqlstate {
            None => totals.completed += 1,
            Some(code::QUERY_CANCELED | code::CONNECTION_FAILURE) => totals.cancelled += 1,
            Some(_) => totals.failed += 1,
        }
        totals.seconds += took.as_secs_f64();
        totals.waited_s += work.waited.unwrap_or_default().as_secs_f64();
        totals.rows += work.rows;
        totals.bytes += work.bytes;
        state
            .times
            .record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        state.short += u64::from(work.short);
        if let Some(code) = sqlstate {
            *state.errors.entry(code).or_default() += 1;
        }
        if let Some(slow) = slow {
            state.slow.truncate(SLOW_MAX - 1);
            state.slow.push_front((Instant::now(), slow));
        }
    }
}

impl Running {
    /// The statement has ended; `sqlstate` is that of its error.
    pub fn end(mut self, work: &Work, sqlstate: Option<&'static str>) {
        self.settle(work, sqlstate);
    }

    /// It is not counted here.
    pub fn forget(mut self) {
        self.is_open = false;
    }

    fn settle(&mut self, work: &Work, sqlstate: Option<&'static str>) {
        self.is_open = false;
        let took = self.begun.elapsed();
        let logged = self.statements.log.min_duration;
        let slow = (took >= logged.unwrap_or(SLOW)).then(|| self.slow(took, work, sqlstate));
        if let Some(slow) = slow.as_ref().filter(|_| logged.is_some()) {
            self.log(slow, work.parameters.as_deref());
        }
        self.statements.count(took, work, sqlstate, slow);
    }

    fn slow(&self, took: Duration, work: &Work, sqlstate: Option<&str>) -> SlowStatement {
        SlowStatement {
            ago_s: 0.0,
            user: self.session.user.clone(),
            database: self.session.database.clone(),
            seconds: took.as_secs_f64(),
            waited_s: work.waited.map(|waited| waited.as_secs_f64()),
            class: work.class,
            cpus: cpulist::format(&work.cpus),
            rows: work.rows,
            bytes: work.bytes,
            sqlstate: sqlstate.map(str::to_owned),
            statement: shown(&self.text, LOGGED_BYTES_MAX),
        }
    }

    fn log(&self, slow: &SlowStatement, parameters: Option<&str>) {
        let milliseconds = |seconds: f64| (seconds * 1e6).round() / 1e3;
        tracing::info!(
            user = self.session.user,
            database = self.session.database,
            from = self.session.from,
            pid = self.session.pid,
            duration_ms = milliseconds(slow.seconds),
            waited_ms = slow.waited_s.map(milliseconds),
            class = slow.class.map(|class| class.to_string()),
            cpus = Some(slow.cpus.as_str()).filter(|cpus| !cpus.is_empty()),
            rows = slow.rows,
            bytes = slow.bytes,
            sqlstate = slow.sqlstate,
            parameters = parameters.map(|text| shown(text, LOGGED_BYTES_MAX)),
            statement = slow.statement,
            "slow statement"
        );
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_open {
            let code = match std::thread::panicking() {
                true => code::INTERNAL_ERROR,
                false => code::CONNECTION_FAILURE,
            };
            self.settle(&Work::default(), Some(code));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Arc<SessionName> {
        Arc::new(SessionName {
            user: "ann".to_owned(),
            database: "shop".to_owned(),
            pid: 7,
            from: "[local]".to_owned(),
        })
    }

    #[test]
    fn every_end_is_counted_once() {
        let statements = Arc::new(Statements::new(StatementLog {
            min_duration: Some(Duration::ZERO),
            parameters: false,
        }));
        let begin = |text: &str| statements.begin(&session(), text.into(), Instant::now());
        let work = Work {
            rows: 3,
            bytes: 100,
            short: true,
            class: Some(Locality::Weak),
            waited: Some(Duration::from_secs(2)),
            cpus: vec![CpuId(0), CpuId(1)],
            parameters: None,
        };
        statements.scheduled(Locality::Weak);
        begin("select 1").end(&work, None);
        begin("select nothing").end(&Work::default(), Some("42703"));
        begin("select 2").end(&Work::default(), Some(code::QUERY_CANCELED));
        drop(begin("select 3"));
        let totals = statements.totals();
        assert_eq!(
            (
                totals.completed,
                totals.failed,
                totals.cancelled,
                totals.rows,
                totals.bytes
            ),
            (1, 1, 2, 3, 100)
        );
        assert_eq!((totals.by_class, totals.waited_s), ([0, 0, 1], 2.0));
        assert_eq!(statements.short(), 1);
        assert_eq!(statements.times().count(), 4);
        assert_eq!(statements.errors(), [("08006", 1), ("42703", 1), ("57014", 1)]);
        let slow = statements.slow();
        let texts: Vec<&str> = slow.iter().map(|slow| slow.statement.as_str()).collect();
        assert_eq!(texts, ["select 3", "select 2", "select nothing", "select 1"]);
        assert_eq!(
            (slow[3].cpus.as_str(), slow[3].class),
            ("0-1", Some(Locality::Weak))
        );
    }

    #[test]
    fn only_the_last_slow_ones_are_kept() {
        let statements = Arc::new(Statements::new(StatementLog {
            min_duration: Some(Duration::ZERO),
            parameters: false,
        }));
        for number in 0..2 * SLOW_MAX {
            let text = format!("select {number}");
            statements
                .begin(&session(), text.into(), Instant::now())
                .end(&Work::default(), None);
        }
        let slow = statements.slow();
        assert_eq!(slow.len(), SLOW_MAX);
        assert_eq!(slow[0].statement, format!("select {}", 2 * SLOW_MAX - 1));
        // Quick ones are none of them by default.
        let usual = Arc::new(Statements::default());
        usual
            .begin(&session(), "select 1".into(), Instant::now())
            .end(&Work::default(), None);
        assert_eq!((usual.slow().len(), usual.totals().completed), (0, 1));
    }
}
