//! An engine of a few texts, so that every state of a connection can be had without data: rows without end, statements that sleep,
//! notices, a mistake.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use corun_server::front::{Described, SqlEngine, SqlSession};
use corun_server::session::{CopyWanted, Effect, Identity, Ran, Sink};
use corun_wire::error::{Refusal, code};
use corun_wire::server::{Column, ResultFormats};
use corun_wire::values::{FixedOffset, Format, Row, Type, Value};
use corun_wire::{TransactionStatus, backend, build};
use tokio::sync::watch;

/// What tests see of the engine.
#[derive(Default)]
pub struct Seen {
    /// Statements that run now.
    pub running: AtomicUsize,
    /// Requests to cancel that were for a session.
    pub cancels: AtomicUsize,
    /// Sessions that there are.
    pub sessions: AtomicUsize,
    /// Rows made by all statements.
    pub rows: AtomicUsize,
}

#[derive(Clone)]
pub struct StandIn {
    pub seen: Arc<Seen>,
    pub runtime: tokio::runtime::Handle,
}

impl SqlEngine for StandIn {
    type Session = OneClient;

    fn session(&self, who: Identity) -> Result<OneClient, Refusal> {
        if who.database == "none" {
            return Err(Refusal::new(
                code::INVALID_CATALOG,
                "database \"none\" does not exist",
            ));
        }
        self.seen.sessions.fetch_add(1, Ordering::SeqCst);
        Ok(OneClient {
            who,
            seen: Arc::clone(&self.seen),
            cancel: watch::channel(0).0,
            status: TransactionStatus::Idle,
            effects: Vec::new(),
        })
    }

    /// Who names none, or one that is called as the user, gets `first`.
    fn database(&self, user: &str, asked: &str) -> String {
        match asked {
            "" => "first".to_owned(),
            asked if asked == user => "first".to_owned(),
            asked => asked.to_owned(),
        }
    }

    fn runtime(&self) -> tokio::runtime::Handle {
        self.runtime.clone()
    }
}

pub struct OneClient {
    who: Identity,
    seen: Arc<Seen>,
    cancel: watch::Sender<u64>,
    status: TransactionStatus,
    effects: Vec<Effect>,
}

impl Drop for OneClient {
    fn drop(&mut self) {
        self.seen.sessions.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Counts a statement while it runs, whatever becomes of it.
struct Running(Arc<Seen>);

impl Running {
    fn begin(seen: &Arc<Seen>) -> Self {
        seen.running.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(seen))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

pub struct Portal {
    sql: String,
    parameters: Vec<Option<Value<'static>>>,
    returned: u64,
}

fn count_of(sql: &str) -> Option<u64> {
    sql.strip_prefix("rows ")?.parse().ok()
}

fn describe(sql: &str) -> Result<(Vec<Type>, Option<Vec<Column>>), Refusal> {
    let columns = match sql {
        "select 1" => vec![Column::new("?column?", Type::INT4)],
        "who" => vec![Column::new("user", Type::TEXT)],
        "where" => vec![Column::new("database", Type::TEXT)],
        "select $1::int8, $2::text" => {
            let columns = vec![Column::new("int8", Type::INT8), Column::new("text", Type::TEXT)];
            return Ok((vec![Type::INT8, Type::TEXT], Some(columns)));
        }
        _ if count_of(sql).is_some() => {
            vec![Column::new("n", Type::INT8), Column::new("text", Type::TEXT)]
        }
        "" | "begin" | "start transaction" | "commit" | "rollback" | "sleep" | "notice" | "set" | "copy"
        | "panic" => {
            return Ok((Vec::new(), None));
        }
        _ => return Err(Refusal::new(code::SYNTAX_ERROR, "syntax error").at(sql, 0)),
    };
    Ok((Vec::new(), Some(columns)))
}

fn data_row(out: &mut Vec<u8>, values: &[Option<Value<'_>>], formats: &ResultFormats) {
    let mut row = Row::begin(out);
    for (at, value) in values.iter().enumerate() {
        match value {
            None => row.null(),
            Some(value) => row.field(|out| value.write(out, formats.of(at as u16), &FixedOffset::UTC)),
        }
    }
    row.finish();
}

fn row_of(number: u64) -> [Option<Value<'static>>; 2] {
    [
        Some(Value::Int8(number as i64)),
        Some(Value::Text("x".repeat(100).into())),
    ]
}

impl OneClient {
    async fn rows(
        &self,
        portal: &mut Portal,
        formats: &ResultFormats,
        most: Option<u32>,
        sink: &mut impl Sink,
    ) -> Result<Ran, Refusal> {
        let count = count_of(&portal.sql).unwrap_or_default();
        let left = count - portal.returned;
        let wanted = most.map_or(left, |most| left.min(u64::from(most)));
        let mut chunk = Vec::new();
        for number in portal.returned + 1..=portal.returned + wanted {
            data_row(&mut chunk, &row_of(number), formats);
            self.seen.rows.fetch_add(1, Ordering::Relaxed);
            if chunk.len() > 60_000 {
                let gone = |_| Refusal::new(code::CONNECTION_FAILURE, "the client is gone");
                sink.chunk(std::mem::take(&mut chunk)).await.map_err(gone)?;
            }
        }
        let _ = sink.chunk(chunk).await;
        portal.returned += wanted;
        Ok(match most {
            Some(most) if u64::from(most) == wanted => Ran::Suspended,
            _ => Ran::Complete(format!("SELECT {wanted}")),
        })
    }

    async fn statement(
        &mut self,
        portal: &mut Portal,
        formats: &ResultFormats,
        most: Option<u32>,
        sink: &mut impl Sink,
    ) -> Result<Ran, Refusal> {
        let mut out = Vec::new();
        let tag = match portal.sql.as_str() {
            "" => return Ok(Ran::Empty),
            "panic" => panic!("a statement that panics, as a test wants it"),
            "sleep" => {
                std::future::pending::<()>().await;
                "SLEEP"
            }
            "select 1" => {
                data_row(&mut out, &[Some(Value::Int4(1))], formats);
                "SELECT 1"
            }
            "who" => {
                data_row(
                    &mut out,
                    &[Some(Value::Text(self.who.user.clone().into()))],
                    formats,
                );
                "SELECT 1"
            }
            "where" => {
                data_row(
                    &mut out,
                    &[Some(Value::Text(self.who.database.clone().into()))],
                    formats,
                );
                "SELECT 1"
            }
            "begin" | "start transaction" => {
                self.status = TransactionStatus::Open;
                "BEGIN"
            }
            "commit" | "rollback" => {
                self.status = TransactionStatus::Idle;
                "COMMIT"
            }
            "notice" => {
                self.effects
                    .push(Effect::Notice(Refusal::new(code::SUCCESS, "take note")));
                "NOTICE"
            }
            "set" => {
                let zone = ("TimeZone".to_owned(), "Asia/Tokyo".to_owned());
                self.effects.push(Effect::Changed(zone.0, zone.1));
                "SET"
            }
            "copy" => {
                build::copy_response(&mut out, backend::COPY_OUT, false, 1);
                for line in ["1\n", "2\n"] {
                    build::copy_data(&mut out, line.as_bytes());
                }
                build::bare(&mut out, b'c');
                "COPY 2"
            }
            sql if count_of(sql).is_some() => return self.rows(portal, formats, most, sink).await,
            _ => {
                data_row(&mut out, &portal.parameters, formats);
                "SELECT 1"
            }
        };
        let _ = sink.chunk(out).await;
        Ok(Ran::Complete(tag.to_owned()))
    }
}

impl SqlSession for OneClient {
    type Prepared = Arc<str>;
    type Portal = Portal;

    fn reported(&self) -> Vec<(String, String)> {
        let all = [
            ("server_version", "15.0"),
            ("server_encoding", "UTF8"),
            ("client_encoding", "UTF8"),
            ("TimeZone", "UTC"),
            ("integer_datetimes", "on"),
            ("standard_conforming_strings", "on"),
        ];
        all.map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into()
    }

    fn canceller(&self) -> Arc<dyn Fn() + Send + Sync> {
        let (cancel, seen) = (self.cancel.clone(), Arc::clone(&self.seen));
        Arc::new(move || {
            cancel.send_modify(|count| *count += 1);
            seen.cancels.fetch_add(1, Ordering::SeqCst);
        })
    }

    async fn prepare(&mut self, sql: &str, _: &[u32]) -> Result<Described<Arc<str>>, Refusal> {
        let sql = sql.to_ascii_lowercase();
        let (parameters, columns) = describe(&sql)?;
        Ok(Described {
            statement: sql.as_str().into(),
            parameters,
            columns,
        })
    }

    fn bind<'v>(
        &mut self,
        statement: &Arc<str>,
        parameters: impl Iterator<Item = (Format, Option<&'v [u8]>)>,
    ) -> Result<Portal, Refusal> {
        let (types, _) = describe(statement)?;
        let read = parameters.zip(types).map(|((format, bytes), of)| {
            let value = bytes.map(|bytes| Value::read(of, format, bytes, &FixedOffset::UTC));
            Ok(value.transpose()?.map(Value::into_owned))
        });
        Ok(Portal {
            sql: statement.to_string(),
            parameters: read.collect::<Result<_, Refusal>>()?,
            returned: 0,
        })
    }

    async fn run(
        &mut self,
        portal: &mut Portal,
        formats: &ResultFormats,
        rows_max: Option<u32>,
        sink: &mut impl Sink,
    ) -> Result<Ran, Refusal> {
        let mut cancelled = self.cancel.subscribe();
        let running = Running::begin(&self.seen);
        let ran = tokio::select! {
            ran = self.statement(portal, formats, rows_max, sink) => ran,
            _ = cancelled.changed() => {
                Err(Refusal::new(code::QUERY_CANCELED, "canceling statement due to user request"))
            }
        };
        drop(running);
        if ran.is_err() {
            self.fail_transaction();
        }
        ran
    }

    async fn simple(&mut self, sql: &str, sink: &mut impl Sink) -> Result<Option<CopyWanted>, Refusal> {
        let formats = ResultFormats::default();
        let texts: Vec<&str> = sql
            .split(';')
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .collect();
        let mut out = Vec::new();
        if texts.is_empty() {
            build::bare(&mut out, backend::EMPTY_QUERY);
        }
        for text in texts {
            let prepared = self.prepare(text, &[]).await?;
            if let Some(columns) = &prepared.columns {
                build::row_description_of(&mut out, columns, &formats);
            }
            let mut portal = self.bind(&prepared.statement, std::iter::empty())?;
            let _ = sink.chunk(std::mem::take(&mut out)).await;
            if let Ran::Complete(tag) = self.run(&mut portal, &formats, None, sink).await? {
                build::command_complete(&mut out, &tag);
                let _ = sink.chunk(std::mem::take(&mut out)).await;
            }
        }
        let _ = sink.chunk(out).await;
        Ok(None)
    }

    async fn end_pipeline(&mut self, _: bool) -> Result<(), Refusal> {
        Ok(())
    }

    fn transaction(&self) -> TransactionStatus {
        self.status
    }

    fn fail_transaction(&mut self) {
        if self.status == TransactionStatus::Open {
            self.status = TransactionStatus::Failed;
        }
    }

    fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }
}
