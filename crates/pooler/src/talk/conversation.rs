//! [`Conversation`]: logged in, one question after the other.

use std::collections::BTreeMap;

use corun_net::reactor::Stream;
use ring::rand::SystemRandom;

use super::line::Line;
use super::{Asked, TalkError, Target};
use corun_wire::auth::server_login::LoginOptions;
use corun_wire::auth::{LoginStep, ServerLogin};
use corun_wire::error::Reported;
use corun_wire::tls::TlsSession;
use corun_wire::{backend, build, frontend, read};

/// Most rows taken of one answer; a console with more pools than that is not for a terminal.
const ROWS_MAX: usize = 100_000;
/// Most messages of a login.
const LOGIN_MESSAGES_MAX: usize = 1000;

/// What a text returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Names of the columns, of the last statement that had any.
    pub columns: Vec<String>,
    /// Values as text; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

impl Rows {
    /// The value of a column in the first row.
    pub fn value(&self, column: usize) -> Option<&str> {
        self.rows.first()?.get(column)?.as_deref()
    }
}

/// A connection that is logged in.
pub struct Conversation {
    line: Line,
    asked: Asked,
    pid: u32,
    parameters: BTreeMap<String, String>,
}

impl Conversation {
    /// Connects, agrees on TLS, and leaves: is somebody there?
    ///
    /// # Errors
    /// Nobody there, no TLS, or no answer in time.
    pub fn reach(target: &Target) -> Result<(), TalkError> {
        Line::open(target).map(drop)
    }

    /// Connects and logs in.
    ///
    /// # Errors
    /// Nobody there, no TLS, not let in, or no answer in time. No error tells a secret.
    pub fn open(target: &Target) -> Result<Self, TalkError> {
        let mut line = Line::open(target)?;
        let options = LoginOptions {
            tls: line.tls.is_some(),
            end_point: line.tls.as_deref().and_then(TlsSession::end_point_hash),
            clear_text: line.is_local(),
        };
        let mut login = ServerLogin::new(
            &target.user,
            target.credentials.clone(),
            options,
            &SystemRandom::new(),
        )?;
        let mut out = Vec::new();
        let own = [
            ("user", target.user.as_str()),
            ("database", target.database.as_str()),
        ];
        let more = target
            .parameters
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        build::startup(&mut out, own.into_iter().chain(more));
        line.send(&out)?;
        let mut conversation = Self {
            line,
            asked: Asked::Nothing,
            pid: 0,
            parameters: BTreeMap::new(),
        };
        let mut inside = false;
        for _ in 0..LOGIN_MESSAGES_MAX {
            let message = conversation.line.message()?;
            match message.tag {
                backend::AUTHENTICATION => {
                    conversation.note(&message.body);
                    match login.message(&message.body)? {
                        LoginStep::Send(bytes) => conversation.line.send(&bytes)?,
                        LoginStep::Wait => {}
                        LoginStep::Done { .. } => inside = true,
                    }
                }
                backend::ERROR => return Err(TalkError::Refused(Reported::read(&message.body))),
                backend::READY if inside => return Ok(conversation),
                backend::KEY_DATA => {
                    conversation.pid = read::key_data(&message.body).map_or(0, |(pid, _)| pid);
                }
                backend::PARAMETER_STATUS => conversation.parameter(&message.body),
                backend::NOTICE | backend::NEGOTIATE => {}
                _ => return Err(conversation.line.strange("an unknown message while logging in")),
            }
        }
        Err(conversation.line.strange("the login does not end"))
    }

    fn note(&mut self, body: &[u8]) {
        let asked = match body.first_chunk().map(|kind| u32::from_be_bytes(*kind)) {
            Some(3) => Asked::ClearText,
            Some(5) => Asked::Md5,
            Some(10) => Asked::Scram,
            Some(0 | 11 | 12) => return,
            _ => Asked::Other,
        };
        self.asked = asked;
    }

    fn parameter(&mut self, body: &[u8]) {
        if let Some((name, value)) = read::parameter_status(body) {
            self.parameters.insert(name.to_owned(), value.to_owned());
        }
    }

    /// Runs a text of the simple protocol. COPY is not offered data.
    ///
    /// # Errors
    /// [`TalkError::Failed`] where a statement did; the conversation goes on. All others end it.
    pub fn query(&mut self, sql: &str) -> Result<Rows, TalkError> {
        let mut out = Vec::new();
        build::query(&mut out, sql);
        self.line.begin();
        self.line.send(&out)?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Rows, TalkError> {
        let mut found = Rows::default();
        let mut failed = None;
        loop {
            let message = self.line.message()?;
            match message.tag {
                backend::ROW_DESCRIPTION => {
                    found.columns = columns(&message.body)
                        .ok_or_else(|| self.line.strange("a description of rows is cut"))?;
                }
                backend::DATA_ROW => {
                    let row =
                        read::data_row(&message.body).ok_or_else(|| self.line.strange("a row is cut"))?;
                    if found.rows.len() == ROWS_MAX {
                        return Err(self.line.strange("too many rows"));
                    }
                    let texts = row
                        .into_iter()
                        .map(|value| value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
                    found.rows.push(texts.collect());
                }
                backend::ERROR => {
                    let said = Reported::read(&message.body);
                    if said.is_fatal() {
                        return Err(TalkError::Failed(said));
                    }
                    failed = Some(said);
                }
                backend::PARAMETER_STATUS => self.parameter(&message.body),
                backend::READY => {
                    return match failed {
                        Some(said) => Err(TalkError::Failed(said)),
                        None => Ok(found),
                    };
                }
                backend::COPY_IN => {
                    let mut out = Vec::new();
                    build::message(&mut out, frontend::COPY_FAIL, |out| out.push(0));
                    self.line.send(&out)?;
                }
                _ => {}
            }
        }
    }

    /// How the other side asked who we are.
    pub fn asked(&self) -> Asked {
        self.asked
    }

    /// The process number it told; 0 where it told none.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// A parameter it reported, such as `server_version`.
    pub fn reported(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// TLS version and cipher; `None` in clear text.
    pub fn tls(&self) -> Option<String> {
        self.line.tls.as_ref().map(|tls| tls.description())
    }

    /// Whether nobody else on the way can read along: the connection does not leave this machine.
    pub fn is_local(&self) -> bool {
        self.line.is_local()
    }

    /// Its socket.
    pub fn stream(&self) -> &Stream {
        &self.line.stream
    }
}

/// Says goodbye; a server logs connections that end without it.
impl Drop for Conversation {
    fn drop(&mut self) {
        let mut out = Vec::new();
        build::bare(&mut out, frontend::TERMINATE);
        self.line.begin();
        let _ = self.line.send(&out);
    }
}

/// The names in a RowDescription.
fn columns(body: &[u8]) -> Option<Vec<String>> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let mut names = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (name, after) = read::text(rest)?;
        names.push(String::from_utf8_lossy(name).into_owned());
        rest = after.get(18..)?;
    }
    Some(names)
}
