//! The same random statements and pipelines, through the target and to a server directly, on two servers with the same content:
//! every message of the answers is the same but for process numbers and cancel keys.
//!
//! A failure prints the seed and the last steps; `CORUN_TEST_SEED` runs one seed, `CORUN_TEST_ROUNDS` and `CORUN_TEST_STEPS` more.

#![allow(clippy::print_stdout, reason = "a test that fails shows its seed")]

use crate::common::message::Message;
use crate::common::number_from_environment;
use crate::common::pipeline::{is_whole, pipeline};
use crate::common::postgres::{Postgres, version};
use crate::common::random::Random;
use crate::common::raw::{Login, Raw};
use crate::common::statements::{Statements, Step, tables};
use crate::common::target::{Mode, Pooling, Target};

/// One client, on both sides.
struct Pair {
    logins: [Login; 2],
    direct: Raw,
    through: Raw,
    mode: Mode,
    status: u8,
    history: Vec<String>,
}

struct Sides {
    /// The server of the direct clients.
    direct: Postgres,
    /// The server behind the target, with the same content.
    behind: Postgres,
    target: Target,
    mode: Mode,
}

impl Sides {
    /// `lines` are settings of our own.
    fn start(mode: Mode, clients: usize, lines: &str) -> Sides {
        let (direct, behind) = (Postgres::start(), Postgres::start());
        let target = Target::start(
            &behind,
            // After a crash of PostgreSQL it is tried again soon.
            &Pooling::new(mode, clients)
                .set("server_login_retry", "1")
                .ours(lines),
        );
        Sides {
            direct,
            behind,
            target,
            mode,
        }
    }

    /// A database of a round on both sides, and its clients.
    fn round(&self, seed: u64, clients: usize) -> Vec<Pair> {
        let database = format!("round_{seed}");
        for server in [&self.direct, &self.behind] {
            server.wait_until_ready();
            server.sql(&format!("create database {database} owner app"));
            server.sql_in(&database, "grant all on schema public to public");
            for statement in tables(clients) {
                server.sql_in(&database, &statement);
            }
        }
        (0..clients)
            .map(|_| {
                Pair::connect(
                    self.mode,
                    [
                        self.direct.login("app").database(&database),
                        self.target.login("app").database(&database),
                    ],
                )
                .expect("logins of a round")
            })
            .collect()
    }
}

impl Pair {
    fn connect(mode: Mode, logins: [Login; 2]) -> std::io::Result<Pair> {
        let direct = Raw::connect(&logins[0])?;
        let through = Raw::connect(&logins[1])?;
        Ok(Pair {
            logins,
            direct,
            through,
            mode,
            status: b'I',
            history: Vec::new(),
        })
    }

    /// Sends a step to both and compares the answers. Returns why there is nothing more to compare with, if so.
    fn step(&mut self, step: &Step, whole: fn(&[Message]) -> bool, about: &str) -> Option<&'static str> {
        self.history.push(step.shown.clone());
        // What the proxy must answer in the server's place has no line in the server's source.
        let with_place = self.mode == Mode::Session;
        let show = |seen: &[Message]| -> Vec<String> {
            seen.iter()
                .filter_map(Message::show)
                .map(|line| without_process(&line))
                .map(|line| if with_place { line } else { without_place(&line) })
                .collect()
        };
        let (expected, must_end) = answer(&mut self.direct, step, whole);
        // A server before version 14 goes on; which messages it answers then cannot be told from outside.
        let breaks_a_copy = |message: &Message| {
            message.field(b'C').as_deref() == Some("08P01")
                && message.field(b'R').as_deref() == Some("CopyGetData")
        };
        let must_end = must_end.is_some() || version() < 14 && expected.iter().any(breaks_a_copy);
        let (seen, ended) = answer(&mut self.through, step, whole);
        if must_end {
            // The server gave up on the connection. Its last words may be lost on the way, as bytes it had not read are left.
            assert!(
                ended.is_some(),
                "{about}: the connection should have ended\nsteps:\n{}\ngot {:#?}",
                self.last(),
                show(&seen)
            );
            return self.begin_again(about);
        }
        let (expected_lines, lines) = (show(&expected), show(&seen));
        if let Some(error) = ended {
            panic!(
                "{about}: {error}\nsteps:\n{}\nexpected {expected_lines:#?}\nonly got {lines:#?}",
                self.last()
            );
        }
        let equal = |direct: &String, through: &String| direct == through || self.excepted(direct, through);
        if expected_lines.len() != lines.len() || !expected_lines.iter().zip(&lines).all(|(a, b)| equal(a, b))
        {
            let differs = expected_lines.iter().zip(&lines).position(|(a, b)| !equal(a, b));
            let at = differs.unwrap_or(expected_lines.len().min(lines.len()));
            if self.cannot_be_carried(expected_lines.get(at), lines.get(at)) {
                if expected_lines[at..].iter().any(|line| line == "ready I") {
                    return Some("the block has ended on one side only");
                }
                return self.begin_again(about);
            }
            panic!(
                "{about}: another answer, from message {at}\nsteps of this client, the newest last:\n{}\n\
                 direct:  {:?}\nthrough: {:?}\nall direct: {expected_lines:#?}\nall through: {lines:#?}",
                self.last(),
                expected_lines.get(at),
                lines.get(at)
            );
        }
        self.status = expected
            .last()
            .and_then(|ready| ready.body.first().copied())
            .unwrap_or(b'I');
        None
    }

    /// Logs in again on both sides.
    fn begin_again(&mut self, about: &str) -> Option<&'static str> {
        let history = std::mem::take(&mut self.history);
        match Pair::connect(self.mode, self.logins.clone()) {
            Ok(pair) => *self = Pair { history, ..pair },
            // PostgreSQL 15.18 dies (signal 11) of some pipelines.
            Err(error) if error.to_string().starts_with("57P0") => return Some("PostgreSQL itself crashed"),
            Err(error) => panic!("{about}: no new login: {error}"),
        }
        None
    }

    /// Errors that may be others.
    ///
    /// In transaction mode: in a transaction block that has failed, a statement that was prepared on another server connection cannot be
    /// parsed on this one: the server says that the block has failed, and not what else is wrong with the message.
    ///
    /// In every mode: a simple query that fails within a block leaves its portal behind, with a text that PostgreSQL has freed; which of
    /// the two errors an Execute of it gets is by chance.
    fn excepted(&self, direct: &str, through: &str) -> bool {
        let is = |line: &str, code: &str| line.starts_with("error ") && line.contains(&format!(" C{code} "));
        let carried = self.mode == Mode::Transaction && direct.starts_with("error ") && is(through, "25P02");
        let left = |one: &str, other: &str| is(one, "25P02") && is(other, "55000");
        carried || left(direct, through) || left(through, direct)
    }

    /// The same exception of transaction mode for Describe: the server that has the statement describes it in a failed block, if it has
    /// no rows.
    fn cannot_be_carried(&self, direct: Option<&String>, through: Option<&String>) -> bool {
        self.mode == Mode::Transaction
            && direct.is_some_and(|line| line.starts_with("parameters "))
            && through.is_some_and(|line| line.starts_with("error ") && line.contains(" C25P02 "))
    }

    fn last(&self) -> String {
        self.history[self.history.len().saturating_sub(40)..].join("\n")
    }
}

/// Sends a step and reads its answer, and why the connection ended if it did.
fn answer(
    raw: &mut Raw,
    step: &Step,
    whole: fn(&[Message]) -> bool,
) -> (Vec<Message>, Option<std::io::Error>) {
    let mut seen = Vec::new();
    let mut ended = raw.try_send(&step.bytes).err();
    while ended.is_none() && !whole(&seen) {
        match raw.read() {
            Ok(message) => seen.push(message),
            Err(error) => ended = Some(error),
        }
    }
    (seen, ended)
}

/// Texts that name the process of the backend lose it.
fn without_process(line: &str) -> String {
    match line.find("process ") {
        Some(at) => {
            let digits = line[at + 8..].chars().take_while(char::is_ascii_digit).count();
            format!("{}process N{}", &line[..at], &line[at + 8 + digits..])
        }
        None => line.to_owned(),
    }
}

/// Errors and notices lose the place in the server's source they come from.
fn without_place(line: &str) -> String {
    if !line.starts_with("error ") && !line.starts_with("notice ") {
        return line.to_owned();
    }
    let fields: Vec<&str> = line
        .split(" | ")
        .filter(|field| !field.starts_with(['F', 'L', 'R']))
        .collect();
    fields.join(" | ")
}

fn whole_statement(seen: &[Message]) -> bool {
    seen.last().is_some_and(|message| message.tag == b'Z')
}

/// Keys of the tables decide which server runs what, in one way or another.
fn dispatched(dispatch: &str, seeds: std::ops::Range<u64>, clients: usize) -> String {
    let columns: Vec<String> = (0..clients)
        .flat_map(|n| [format!("a{n}.id"), format!("b{n}.a")])
        .chain(["shared.id".to_owned()])
        .collect();
    let range = |seed: u64| {
        format!(
            "[ranges.r{seed}]\ndatabase = \"round_{seed}\"\ncolumns = {columns:?}\nminimum = 0\nmaximum = 30\n"
        )
    };
    format!(
        "dispatch = \"{dispatch}\"\n{}",
        seeds.map(range).collect::<String>()
    )
}

fn rounds(mode: Mode, clients: usize, salt: u64, dispatch: &str, run: impl Fn(&mut [Pair], u64, &str)) {
    let first = number_from_environment("CORUN_TEST_SEED", 1 + salt);
    let seeds = first..first + number_from_environment("CORUN_TEST_ROUNDS", 3);
    let lines = match dispatch {
        "off" => String::new(),
        dispatch => dispatched(dispatch, seeds.clone(), clients),
    };
    let sides = Sides::start(mode, clients, &lines);
    for seed in seeds {
        let about = format!("CORUN_TEST_SEED={seed}, {mode:?} mode");
        println!("{about}");
        let mut pairs = sides.round(seed, clients);
        run(&mut pairs, seed, &about);
    }
}

fn statements(mode: Mode, clients: usize, salt: u64, dispatch: &str) {
    rounds(mode, clients, salt, dispatch, |pairs, seed, about| {
        let mut order = Random::new(seed);
        let mut generators: Vec<Statements> = (0..clients)
            .map(|n| Statements::new(seed, n, mode == Mode::Session))
            .collect();
        for _ in 0..number_from_environment("CORUN_TEST_STEPS", 400) {
            let n = order.below(clients);
            let step = generators[n].next(pairs[n].status);
            let ends = pairs[n].step(&step, whole_statement, &format!("{about}, client {n}"));
            assert_eq!(ends, None);
        }
    });
}

fn pipelines(mode: Mode, clients: usize, salt: u64, dispatch: &str) {
    rounds(mode, clients, salt, dispatch, |pairs, seed, about| {
        let mut random = Random::new(seed);
        let steps = number_from_environment("CORUN_TEST_STEPS", 400);
        for at in 0..steps {
            let n = random.below(clients);
            let step = pipeline(&mut random, n);
            if let Some(why) = pairs[n].step(&step, is_whole, &format!("{about}, client {n}")) {
                println!("{about}: {why}; the rest of this round is left out after {at} of {steps} steps");
                return;
            }
        }
    });
}

#[test]
fn statements_in_session_mode_are_answered_as_by_the_server() {
    statements(Mode::Session, 2, 1000, "off");
}

#[test]
fn statements_of_clients_in_turn_in_transaction_mode_are_answered_as_by_the_server() {
    statements(Mode::Transaction, 4, 2000, "off");
}

#[test]
fn pipelines_in_session_mode_are_answered_as_by_the_server() {
    pipelines(Mode::Session, 2, 3000, "off");
}

#[test]
fn pipelines_of_clients_in_turn_in_transaction_mode_are_answered_as_by_the_server() {
    pipelines(Mode::Transaction, 4, 4000, "off");
}

#[test]
fn statements_sent_by_their_keys_are_answered_as_by_the_server() {
    statements(Mode::Transaction, 4, 5000, "range");
}

#[test]
fn pipelines_sent_by_their_keys_are_answered_as_by_the_server() {
    pipelines(Mode::Transaction, 4, 6000, "range");
}

#[test]
fn statements_sent_at_random_are_answered_as_by_the_server() {
    statements(Mode::Transaction, 4, 7000, "random");
}

#[test]
fn pipelines_sent_at_random_are_answered_as_by_the_server() {
    pipelines(Mode::Transaction, 4, 8000, "random");
}
