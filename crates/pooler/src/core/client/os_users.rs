//! [`OsUsers`]: names of the system's users, looked up aside: a directory service may take its time, and no event loop waits for it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_net::reactor::{Peer, Reactor};
use parking_lot::Mutex;

use crate::core::client::{Client, Entrance};
use crate::core::event_loop::EventLoop;
use crate::core::shared::{Message, Shared};
use corun_wire::auth::Method;

/// How long a name is used before it is looked up again.
const KEPT: Duration = Duration::from_secs(60);
/// Users remembered at most.
const USERS_MAX: usize = 10_000;

/// A client whose login waits for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub event_loop: usize,
    /// Slot and number.
    pub client: usize,
    pub id: u64,
}

enum Known {
    Name(Option<String>, Instant),
    /// A thread looks it up for these.
    Busy(Vec<Waiter>),
}

/// What is known of user numbers.
#[derive(Default)]
pub(crate) struct OsUsers(Mutex<HashMap<u32, Known>>);

impl OsUsers {
    /// Whether the name behind `uid` is known. Otherwise it is looked up and the waiter's loop gets a [`Message::OsUser`].
    pub fn find(&self, shared: &Arc<Shared>, uid: u32, waiter: Waiter) -> bool {
        let mut users = self.0.lock();
        match users.get_mut(&uid) {
            Some(Known::Name(_, at)) if at.elapsed() < KEPT => return true,
            Some(Known::Busy(waiters)) => {
                waiters.push(waiter);
                return false;
            }
            _ => {}
        }
        if users.len() >= USERS_MAX {
            users.retain(|_, known| matches!(known, Known::Busy(_)));
        }
        users.insert(uid, Known::Busy(vec![waiter]));
        drop(users);
        let shared = Arc::clone(shared);
        let look_up = move || {
            shared
                .os_users
                .answer(&shared, uid, corun_net::users::user_name(uid))
        };
        if let Err(error) = std::thread::Builder::new()
            .name("corun-users".to_owned())
            .spawn(look_up)
        {
            tracing::warn!(%error, "the name of a system user cannot be looked up");
            self.0.lock().insert(uid, Known::Name(None, Instant::now()));
            return true;
        }
        false
    }

    fn answer(&self, shared: &Shared, uid: u32, name: Option<String>) {
        let before = self.0.lock().insert(uid, Known::Name(name, Instant::now()));
        let Some(Known::Busy(waiters)) = before else {
            return;
        };
        for Waiter {
            event_loop,
            client,
            id,
        } in waiters
        {
            shared.tell(event_loop, Message::OsUser { client, id });
        }
    }

    /// The name behind `uid`, as it was found last.
    pub fn name(&self, uid: u32) -> Option<String> {
        match self.0.lock().get(&uid)? {
            Known::Name(name, _) => name.clone(),
            Known::Busy(_) => None,
        }
    }
}

impl<R: Reactor> EventLoop<R> {
    /// The system has said who a client is.
    pub(in crate::core) fn os_user_found(&mut self, reactor: &mut R, index: usize, id: u64) {
        let client = self.clients.get_mut(index).filter(|client| client.id == id);
        if let Some(entrance) = client.and_then(|client| client.take_entrance()) {
            self.who_is_it(reactor, index, entrance);
        }
    }
}

/// The number of the system's user that a client is, where its name decides.
pub(in crate::core) fn asked_of_system(client: &Client, entrance: &Entrance) -> Option<u32> {
    match (&client.peer, entrance.method) {
        (Some(Peer::Unix { uid, .. }), Method::Peer) => Some(*uid),
        _ => None,
    }
}
