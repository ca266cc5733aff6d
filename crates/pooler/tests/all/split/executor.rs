//! Runs plans over plain connections that wait, as an executor would, and the same query whole on the same snapshot.

use corun_pooler::split::{Confirmed, KeyColumn, LeadError, MergeKind, Merger, Refusal, plan};

use crate::common::message::{self, Message};
use crate::common::postgres::{new_database, shared};
use crate::common::random::Random;
use crate::common::raw::{Login, Raw};

/// A connection that speaks the extended protocol.
pub struct Client(pub Raw);

/// What a statement answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Types of the columns.
    pub columns: Vec<u32>,
    /// Bodies of the DataRow messages.
    pub rows: Vec<Vec<u8>>,
}

/// Code and message of an error.
pub type Failed = String;

impl Client {
    pub fn connect(login: &Login) -> Client {
        Client(Raw::connect(login).expect("logged in"))
    }

    /// A client of a new database in which these statements were run, and its login.
    pub fn in_new_database(statements: &str) -> (Login, Client) {
        let login = shared().login("app").database(&new_database());
        let mut client = Client::connect(&login);
        client.run(statements);
        (login, client)
    }

    /// Runs simple statements that must succeed.
    pub fn run(&mut self, sql: &str) -> Vec<Vec<Option<String>>> {
        self.0.rows(sql)
    }

    fn ask(&mut self, bytes: &[u8]) -> Result<Vec<Message>, Failed> {
        self.0.send(bytes);
        let answer = self.0.until_ready();
        match message::first_error(&answer) {
            Some(error) => Err(error.error()),
            None => Ok(answer),
        }
    }

    /// Types of a text's parameters and columns.
    pub fn describe(&mut self, sql: &str, types: &[u32]) -> Result<(Vec<u32>, Vec<u32>), Failed> {
        let bytes = [
            message::parse("", sql, types),
            message::describe(b'S', ""),
            message::sync(),
        ]
        .concat();
        let answer = self.ask(&bytes)?;
        let of = |tag: u8| answer.iter().find(|message| message.tag == tag);
        let parameters = of(b't').expect("a description of parameters");
        let columns = of(b'T').map(Message::column_types).unwrap_or_default();
        Ok((parameters.type_oids(), columns))
    }

    /// Runs a text with these values, as text, and result formats.
    pub fn execute(
        &mut self,
        sql: &str,
        types: &[u32],
        values: &[Option<String>],
        formats: &[i16],
    ) -> Result<Answer, Failed> {
        let bytes = [
            message::parse("", sql, types),
            message::bind_as("", "", values, formats),
            message::describe(b'P', ""),
            message::execute("", 0),
            message::sync(),
        ]
        .concat();
        let answer = self.ask(&bytes)?;
        let mut found = Answer::default();
        for message in answer {
            match message.tag {
                b'T' => found.columns = message.column_types(),
                b'D' => found.rows.push(message.body),
                _ => {}
            }
        }
        Ok(found)
    }
}

/// `table.column` as a key.
pub fn key(name: &str) -> KeyColumn {
    let (table, column) = name.split_once('.').expect("table.column");
    KeyColumn {
        schema: None,
        table: table.to_owned(),
        column: column.to_owned(),
    }
}

/// A query that is ready to be run split.
pub struct Prepared {
    pub text: String,
    pub confirmed: Confirmed,
    pub parameters: Vec<u32>,
}

/// Why a query is not run split.
#[derive(Debug)]
pub enum Unprepared {
    /// The server does not run it whole either.
    Failed(Failed),
    Refused(Refusal),
    /// The server does not take a text that was made: a mistake.
    Wrong(Failed),
}

/// Asks the server what is to be known.
pub fn prepare(client: &mut Client, text: &str, key: &KeyColumn) -> Result<Prepared, Unprepared> {
    let plan = plan(text, key).map_err(Unprepared::Refused)?;
    let (parameters, original) = client.describe(text, &[]).map_err(Unprepared::Failed)?;
    let answer = client.0.try_rows(&plan.questions()).map_err(Unprepared::Wrong)?;
    let resolved = plan.resolve(&answer).map_err(Unprepared::Refused)?;
    let mut described = |text: &str| {
        client
            .describe(text, &parameters)
            .map(|described| described.1)
            .map_err(|failed| Unprepared::Wrong(format!("{failed}: {text}")))
    };
    let part = described(resolved.describe())?;
    let leader = described(resolved.leader())?;
    let confirmed = resolved
        .confirm(&original, &part, &leader)
        .map_err(Unprepared::Refused)?;
    Ok(Prepared {
        text: text.to_owned(),
        confirmed,
        parameters,
    })
}

/// Leader and parts, and what happened in between.
pub struct Team {
    pub leader: Client,
    pub parts: Vec<Client>,
}

/// The outcome of one execution: the rows of the whole and of the split query.
pub enum Outcome {
    Both {
        whole: Answer,
        split: Answer,
    },
    /// The whole has failed, or the split has, with this: then the query runs whole.
    Failed {
        whole: Result<Answer, Failed>,
        split: Failed,
    },
}

impl Team {
    pub fn connect(login: &Login, parts: usize) -> Team {
        Team {
            leader: Client::connect(login),
            parts: (0..parts).map(|_| Client::connect(login)).collect(),
        }
    }

    /// Runs a query whole and split on one snapshot.
    pub fn run(
        &mut self,
        prepared: &Prepared,
        splits: &[String],
        values: &[Option<String>],
        formats: &[i16],
        random: &mut Random,
    ) -> Outcome {
        let begin = "begin isolation level repeatable read read only";
        self.leader.run(begin);
        let split = self.split(prepared, splits, values, formats, random);
        if split.is_err() {
            // The transaction may have failed; the whole is run in another, on data that does not change.
            self.leader.run("rollback");
            self.leader.run(begin);
        }
        let whole = self
            .leader
            .execute(&prepared.text, &prepared.parameters, values, formats);
        self.leader.run("rollback");
        for part in &mut self.parts {
            part.run("rollback");
        }
        match (whole, split) {
            (Ok(whole), Ok(split)) => Outcome::Both { whole, split },
            (whole, Err(split)) => Outcome::Failed { whole, split },
            (Err(whole), Ok(_)) => Outcome::Failed {
                whole: Err(whole),
                split: "succeeded".to_owned(),
            },
        }
    }

    fn split(
        &mut self,
        prepared: &Prepared,
        splits: &[String],
        values: &[Option<String>],
        formats: &[i16],
        random: &mut Random,
    ) -> Result<Answer, Failed> {
        let Prepared {
            confirmed,
            parameters,
            ..
        } = prepared;
        let formats_led = confirmed.leader_formats();
        let led = self
            .leader
            .execute(confirmed.leader(), parameters, values, &formats_led)?;
        let lead = confirmed
            .lead(&led.rows[0])
            .map_err(|error: LeadError| error.to_string())?;
        let texts = confirmed
            .parts(splits, &lead)
            .map_err(|error| error.to_string())?;
        let part_formats = confirmed.part_formats(formats);
        let mut answers = Vec::new();
        for (text, part) in texts.iter().zip(&mut self.parts) {
            part.run(&format!(
                "begin isolation level repeatable read read only; set transaction snapshot '{}'",
                lead.snapshot
            ));
            let answer = part
                .execute(text, parameters, values, &part_formats)
                .map_err(|failed| format!("{failed} in {text}"))?;
            answers.push(answer.rows);
        }
        assert_eq!(answers.len(), texts.len(), "too few connections");

        let mut merger = Merger::new(confirmed, &lead, texts.len());
        let mut out = Vec::new();
        let mut left: Vec<_> = answers.into_iter().map(Vec::into_iter).enumerate().collect();
        while !left.is_empty() {
            let at = random.below(left.len());
            let (part, rows) = &mut left[at];
            match rows.next() {
                Some(row) => merger.push(*part, &row).map_err(|error| error.to_string())?,
                None => {
                    merger.end(*part).map_err(|error| error.to_string())?;
                    left.swap_remove(at);
                }
            }
            if random.percent(50) {
                merger.drain(&mut out);
            }
        }
        merger.drain(&mut out);
        if confirmed.merge() == MergeKind::Final {
            assert!(out.is_empty(), "rows before the final statement");
            let sql =
                String::from_utf8(merger.final_sql().map_err(|error| error.to_string())?).expect("text");
            let answer = self
                .leader
                .execute(&sql, parameters, values, formats)
                .map_err(|failed| format!("{failed} in {sql}"))?;
            assert_eq!(answer.columns, confirmed.columns(), "{sql}");
            return Ok(answer);
        }
        let rows: Vec<_> = message::all(&out)
            .into_iter()
            .map(|message| message.body)
            .collect();
        assert_eq!(merger.command_tag(), format!("SELECT {}", rows.len()));
        Ok(Answer {
            columns: confirmed.columns().to_vec(),
            rows,
        })
    }
}
