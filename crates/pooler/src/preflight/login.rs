//! Logins with what the files know, and with a password that somebody gives where that is not enough: a SCRAM secret lets others in,
//! and does not get in itself.

use std::collections::HashMap;

use crate::core::ConfigFiles;
use crate::talk::{Conversation, TalkError, Target};
use corun_wire::auth::scram::client::ScramClientError;
use corun_wire::auth::{Credentials, LoginError, Lookup, Secret};

/// Passwords that no file has: each user's is asked for once, when a server asks for it.
pub struct Passwords<'a> {
    ask: &'a mut dyn FnMut(&str) -> Option<String>,
    given: HashMap<String, Option<Vec<u8>>>,
}

impl<'a> Passwords<'a> {
    /// `ask` is told the user and returns the password, if there is one.
    pub fn new(ask: &'a mut dyn FnMut(&str) -> Option<String>) -> Self {
        let given = HashMap::new();
        Self { ask, given }
    }

    fn of(&mut self, user: &str) -> Option<Vec<u8>> {
        if let Some(known) = self.given.get(user) {
            return known.clone();
        }
        let password = (self.ask)(user).map(String::into_bytes);
        self.given.insert(user.to_owned(), password.clone());
        password
    }
}

/// With what somebody got in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoggedInWith {
    /// What the files know.
    Files,
    /// A password that was given.
    Given,
    /// The same; the SCRAM secret that the files have for it is not the server's.
    OtherSecret,
}

/// Why a login failed.
#[derive(Debug)]
pub(crate) struct FailedLogin {
    pub error: TalkError,
    /// A password was given.
    pub given: bool,
}

impl FailedLogin {
    /// Whether trying with another account is of no use.
    pub fn is_away(&self) -> bool {
        matches!(
            self.error,
            TalkError::Unreachable { .. } | TalkError::Timeout { .. } | TalkError::Protocol { .. }
        )
    }

    /// What to do about the password, if it is that.
    pub fn advice(&self) -> Option<&'static str> {
        match (&self.error, self.given) {
            (error, true) if error.is_password() => Some(
                "The password given here is not this account's: name the account that has it with --user.",
            ),
            (TalkError::Login(LoginError::Missing(..)), false) => Some(
                "No password is known to log in with: set PGPASSWORD, or run the command on a terminal, where it asks.",
            ),
            _ => None,
        }
    }
}

/// Logs in with what the files know, and where the server asks for a password that they do not know, with one that is given.
pub(crate) fn open(
    files: &ConfigFiles,
    target: &Target,
    passwords: &mut Passwords<'_>,
) -> Result<(Conversation, LoggedInWith), FailedLogin> {
    let missing = match Conversation::open(target) {
        Ok(talk) => return Ok((talk, LoggedInWith::Files)),
        Err(error @ TalkError::Login(LoginError::Missing(..))) => error,
        Err(error) => return Err(FailedLogin { error, given: false }),
    };
    let user = &target.user;
    let Some(password) = passwords.of(user) else {
        let (error, given) = (missing, false);
        return Err(FailedLogin { error, given });
    };
    let log_in = |credentials| {
        Conversation::open(&Target {
            credentials,
            ..target.clone()
        })
    };
    let mut with = LoggedInWith::Given;
    if let Lookup::Found(secret) = files.lookup(user) {
        // Another user's password is not tried: servers count failures.
        if !secret.matches(&password, user) {
            let (error, given) = (missing, true);
            return Err(FailedLogin { error, given });
        }
        if let Secret::Scram(verifier) = secret {
            // As the pooler itself does after a client's login.
            let credentials = Credentials::new(None, verifier.keys(&password));
            match log_in(credentials) {
                Ok(talk) => return Ok((talk, LoggedInWith::Given)),
                Err(TalkError::Login(LoginError::Scram(ScramClientError::OtherVerifier))) => {
                    with = LoggedInWith::OtherSecret;
                }
                // Servers that want something else than SCRAM.
                Err(_) => {}
            }
        }
    }
    let credentials = Credentials {
        password: Some(password),
        ..Credentials::default()
    };
    match log_in(credentials) {
        Ok(talk) => Ok((talk, with)),
        Err(error) => Err(FailedLogin { error, given: true }),
    }
}
