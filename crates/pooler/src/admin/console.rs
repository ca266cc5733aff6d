//! [`Console`]: the protocol of a client that has logged in to the console, as a state machine on messages.
//!
//! Both query protocols work, so that drivers without the simple one can be used, too.
//!
//! ```text
//!  message ─► Step::Next                      answered, or nothing to say: next message
//!          ├► Step::Run(command) ─► answer()  the caller runs it; no message in between
//!          └► Step::End                       the client leaves, or speaks something else
//! ```

use std::collections::HashMap;

use super::command::{Command, ConsoleError, Show, help};
use super::rows::VersionRow;
use super::table::{Table, describe};
use corun_wire::error::{Refusal, code};
use corun_wire::{TransactionStatus, backend, build, frontend, read};

/// Statements and portals of one client, each at most.
const NAMES_MAX: usize = 100;

/// Settings of a session that drivers make when they connect; the console has no use for them.
const SESSION_SETTINGS: [&str; 8] = [
    "application_name",
    "bytea_output",
    "client_encoding",
    "client_min_messages",
    "datestyle",
    "extra_float_digits",
    "intervalstyle",
    "timezone",
];

/// What to do after a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Take the next message.
    Next,
    /// Run this, then call [`Console::answer`]; until then, take no message.
    Run(Command),
    /// Send what there is and close.
    End,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// It is done, and this should be known: a notice each.
    Noticed(Vec<Refusal>),
    /// What `SHOW` asked for; its columns are those of the row type of that `SHOW`.
    Table(Table),
}

/// A client's session with the console.
#[derive(Debug)]
pub struct Console {
    // Fixed.
    may_change: bool,
    version: String,
    // Changing.
    statements: HashMap<Vec<u8>, Command>,
    portals: HashMap<Vec<u8>, (Command, Vec<i16>)>,
    /// After an error of the extended protocol, until Sync.
    skipping: bool,
    running: Option<Running>,
}

/// Why a message is not answered.
enum Rejection {
    /// The client is told, and goes on.
    Refused(Refusal),
    /// It is not the protocol: the client is told and has to go.
    Malformed(&'static str),
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Rejection {
        Rejection::Refused(refusal)
    }
}

/// A command on its way.
#[derive(Debug)]
struct Running {
    tag: &'static str,
    /// Formats of the columns; `None` in the simple protocol.
    formats: Option<Vec<i16>>,
}

/// Parameters a client of the console is told after it has logged in.
pub fn greeting(version: &str) -> [(&'static str, String); 7] {
    [
        ("server_version", format!("{version}/corun")),
        ("server_encoding", "UTF8".to_owned()),
        ("client_encoding", "UTF8".to_owned()),
        ("DateStyle", "ISO".to_owned()),
        ("TimeZone", "GMT".to_owned()),
        ("standard_conforming_strings", "on".to_owned()),
        ("integer_datetimes", "on".to_owned()),
    ]
}

impl Console {
    /// A session; `may_change` for users of `admin_users`, the others only look.
    pub fn new(may_change: bool, version: &str) -> Console {
        Console {
            may_change,
            version: version.to_owned(),
            statements: HashMap::new(),
            portals: HashMap::new(),
            skipping: false,
            running: None,
        }
    }

    /// Takes a message and appends what there is to say.
    pub fn message(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Step {
        debug_assert!(self.running.is_none(), "a message before the answer");
        match tag {
            frontend::TERMINATE => return Step::End,
            frontend::SYNC => {
                self.skipping = false;
                self.portals.clear();
                build::ready(out, TransactionStatus::Idle);
                return Step::Next;
            }
            // Nothing is ever copied here, but a client may have begun before it read an error.
            frontend::FLUSH | frontend::COPY_DATA | frontend::COPY_DONE | frontend::COPY_FAIL => {
                return Step::Next;
            }
            _ if self.skipping => return Step::Next,
            _ => {}
        }
        let extended = tag != frontend::QUERY;
        let outcome = match tag {
            frontend::QUERY => self.query(body, out),
            frontend::PARSE => self.parse(body, out),
            frontend::BIND => self.bind(body, out),
            frontend::DESCRIBE => self.describe(body, out),
            frontend::EXECUTE => self.execute(body, out),
            frontend::CLOSE => self.close(body, out),
            _ => Err(Rejection::Malformed("the console does not know this message")),
        };
        match outcome {
            Ok(step) => step,
            Err(Rejection::Malformed(what)) => {
                build::fatal(out, &Refusal::new(code::PROTOCOL_VIOLATION, what));
                Step::End
            }
            Err(Rejection::Refused(refusal)) => {
                self.refuse(&refusal, extended, out);
                Step::Next
            }
        }
    }

    /// Ends the command that [`Step::Run`] gave out.
    pub fn answer(&mut self, answer: Result<Answer, Refusal>, out: &mut Vec<u8>) {
        let Some(Running { tag, formats }) = self.running.take() else {
            return;
        };
        match (answer, &formats) {
            (Ok(Answer::Done), _) => build::command_complete(out, tag),
            (Ok(Answer::Noticed(notices)), _) => {
                for notice in &notices {
                    build::notice(out, notice);
                }
                build::command_complete(out, tag);
            }
            (Ok(Answer::Table(table)), None) => table.encode(out, tag),
            (Ok(Answer::Table(table)), Some(formats)) => {
                table.encode_rows(out, formats);
                build::command_complete(out, tag);
            }
            (Err(refusal), formats) => return self.refuse(&refusal, formats.is_some(), out),
        }
        if formats.is_none() {
            build::ready(out, TransactionStatus::Idle);
        }
    }

    fn refuse(&mut self, refusal: &Refusal, extended: bool, out: &mut Vec<u8>) {
        build::error(out, refusal);
        if extended {
            self.skipping = true;
        } else {
            build::ready(out, TransactionStatus::Idle);
        }
    }

    fn query(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Step, Rejection> {
        let sql = read::query(body).ok_or(Rejection::Malformed("a query is not a text"))?;
        let command = command(sql)?;
        self.start(command, None, out)
    }

    fn parse(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Step, Rejection> {
        let parse = read::parse(body).ok_or(Rejection::Malformed("a Parse is not whole"))?;
        if self.statements.len() >= NAMES_MAX && !self.statements.contains_key(parse.name) {
            return refused(
                code::PROGRAM_LIMIT,
                "too many prepared statements for the console",
            );
        }
        if !parse.name.is_empty() && self.statements.contains_key(parse.name) {
            return refused(code::DUPLICATE_STATEMENT, "the prepared statement exists already");
        }
        self.statements.insert(parse.name.to_vec(), command(parse.sql)?);
        build::bare(out, backend::PARSE_COMPLETE);
        Ok(Step::Next)
    }

    fn bind(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Step, Rejection> {
        let cut = || Rejection::Malformed("a Bind is not whole");
        let (portal, statement, rest) = read::bind(body).ok_or_else(cut)?;
        let command = self.statements.get(statement).cloned().ok_or_else(no_statement)?;
        // Formats of parameters, then none of these, then formats of columns.
        let (_, rest) = numbers(rest).ok_or_else(cut)?;
        let (parameters, rest) = rest.split_first_chunk().ok_or_else(cut)?;
        if i16::from_be_bytes(*parameters) != 0 {
            return refused(code::NOT_SUPPORTED, "commands of the console have no parameters");
        }
        let Some((formats, [])) = numbers(rest) else {
            return Err(cut());
        };
        if self.portals.len() >= NAMES_MAX && !self.portals.contains_key(portal) {
            return refused(code::PROGRAM_LIMIT, "too many portals for the console");
        }
        self.portals.insert(portal.to_vec(), (command, formats));
        build::bare(out, backend::BIND_COMPLETE);
        Ok(Step::Next)
    }

    fn describe(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Step, Rejection> {
        let (kind, name) = read::target(body).ok_or(Rejection::Malformed("a Describe is not whole"))?;
        let (command, formats) = if kind == b'S' {
            let command = self.statements.get(name).ok_or_else(no_statement)?;
            build::message(out, backend::PARAMETER_DESCRIPTION, |out| out.extend([0; 2]));
            (command, &[][..])
        } else {
            let (command, formats) = self.portals.get(name).ok_or_else(no_statement)?;
            (command, &formats[..])
        };
        match command {
            Command::Show(show) if *show != Show::Help => describe(out, show.columns(), formats),
            _ => build::bare(out, backend::NO_DATA),
        }
        Ok(Step::Next)
    }

    fn execute(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Step, Rejection> {
        let (portal, _) = read::text(body).ok_or(Rejection::Malformed("an Execute is not whole"))?;
        let (command, formats) = self.portals.get(portal).cloned().ok_or_else(no_statement)?;
        self.start(command, Some(formats), out)
    }

    fn close(&mut self, body: &[u8], out: &mut Vec<u8>) -> Result<Step, Rejection> {
        let (kind, name) = read::target(body).ok_or(Rejection::Malformed("a Close is not whole"))?;
        if kind == b'S' {
            self.statements.remove(name);
        } else {
            self.portals.remove(name);
        }
        build::bare(out, backend::CLOSE_COMPLETE);
        Ok(Step::Next)
    }

    /// Answers the commands that the console can answer alone; the caller runs all others.
    fn start(
        &mut self,
        command: Command,
        formats: Option<Vec<i16>>,
        out: &mut Vec<u8>,
    ) -> Result<Step, Rejection> {
        let for_session =
            matches!(&command, Command::Set { key, .. } if SESSION_SETTINGS.contains(&key.as_str()));
        if !self.may_change && !command.only_looks() && !for_session {
            let message = format!("{} is for users in admin_users", command.tag());
            return Err(Refusal::new(code::INSUFFICIENT_PRIVILEGE, message).into());
        }
        let simple = formats.is_none();
        let tag = command.tag();
        self.running = Some(Running { tag, formats });
        let known = match &command {
            Command::Empty => {
                self.running = None;
                build::bare(out, backend::EMPTY_QUERY);
                if simple {
                    build::ready(out, TransactionStatus::Idle);
                }
                return Ok(Step::Next);
            }
            Command::Set { .. } if for_session => Answer::Done,
            Command::Show(Show::Help) => {
                build::notice(out, &Refusal::new(code::SUCCESS, "Console usage").detail(help()));
                Answer::Done
            }
            Command::Show(Show::Version) => Answer::Table(Table::of(&[VersionRow {
                version: format!("corun {}", self.version),
            }])),
            // That is always empty.
            Command::Show(show @ Show::DnsZones) => {
                let (columns, rows) = (show.columns().to_vec(), Vec::new());
                Answer::Table(Table { columns, rows })
            }
            _ => return Ok(Step::Run(command)),
        };
        self.answer(Ok(known), out);
        Ok(Step::Next)
    }
}

fn refused<T>(code: &'static str, what: &str) -> Result<T, Rejection> {
    Err(Refusal::new(code, what).into())
}

fn no_statement() -> Refusal {
    Refusal::new(code::UNDEFINED_STATEMENT, "no such prepared statement or portal")
}

fn command(sql: &[u8]) -> Result<Command, Refusal> {
    let unreadable = || Refusal::new(code::SYNTAX_ERROR, "a command of the console is UTF-8");
    let sql = std::str::from_utf8(sql).map_err(|_| unreadable())?;
    Command::parse(sql).map_err(|error: ConsoleError| error.refusal())
}

/// A count of 16 bits and as many numbers, and what follows.
fn numbers(body: &[u8]) -> Option<(Vec<i16>, &[u8])> {
    let (count, rest) = body.split_first_chunk()?;
    let (numbers, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*count)) * 2)?;
    let (pairs, _) = numbers.as_chunks::<2>();
    Some((pairs.iter().map(|pair| i16::from_be_bytes(*pair)).collect(), rest))
}
