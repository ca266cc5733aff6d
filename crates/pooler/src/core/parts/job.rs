//! [`Job`]: one query that runs in parts.

use std::sync::Arc;
use std::time::Duration;

use super::asked::Asked;
use super::rules::How;
use crate::core::server::raw_reply::Reply;
use crate::session::settings::Settings;
use crate::split::{Lead, Plan, Resolved};
use crate::understand::Understood;

/// What a server does for a job.
#[derive(Clone, Debug)]
pub(in crate::core) enum Step {
    /// The leader: what the names in the text stand for.
    Questions,
    /// The leader: types of the original.
    Original,
    /// The leader: types of the parts' text and of its own.
    Described,
    /// The leader: a transaction, its snapshot, values computed once.
    Lead,
    /// Another: the client's settings.
    Replay(Arc<Settings>),
    /// A part.
    Part,
    /// The leader: the statement over what the parts answered.
    Final,
    /// The end of the transaction.
    End,
}

/// A server that takes part; the first is the leader.
#[derive(Debug)]
pub(in crate::core) struct Member {
    pub server: usize,
    /// Its number, should another have its slot.
    pub id: u64,
    pub state: State,
}

/// How far a member is.
#[derive(Debug)]
pub(in crate::core) enum State {
    /// It works on something.
    Busy,
    /// It could begin its part.
    Ready,
    /// It has answered.
    Done(Box<Reply>),
}

/// One query that runs in parts.
pub(in crate::core) struct Job {
    // Fixed.
    pub id: u64,
    pub rule: usize,
    pub asked: Asked,
    /// What its text does.
    pub understood: Arc<Understood>,
    /// What is known of the text stands behind this.
    pub key: Vec<u8>,
    pub stamp: u64,
    pub client: usize,
    pub client_id: u64,
    pub began: Duration,
    /// Parts chosen for it.
    pub wanted: usize,
    /// Its text was not known before.
    pub new: bool,
    // Changing, in this order.
    /// As many as there are servers for.
    pub parts: usize,
    pub plan: Option<Plan>,
    pub resolved: Option<Resolved>,
    /// Body of the original's RowDescription, and its parameters' types.
    pub description: Vec<u8>,
    pub types: Vec<u8>,
    pub how: Option<Arc<How>>,
    pub lead: Option<Lead>,
    /// Texts of the parts.
    pub texts: Vec<String>,
    pub members: Vec<Member>,
}

/// What becomes of the client at the end.
#[derive(Debug)]
pub(in crate::core) enum After {
    /// It gets this.
    Answer(Vec<u8>),
    /// It gets an error: the body of an ErrorResponse.
    Error(Vec<u8>),
    /// Its request runs whole.
    Whole,
    /// It has left, or was told already.
    Nothing,
}

impl Job {
    /// The member that is this server.
    pub fn member(&mut self, server: usize) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.server == server)
    }

    /// The leader's slot.
    pub fn leader(&self) -> Option<usize> {
        self.members.first().map(|member| member.server)
    }
}
