//! Secrets of users that no file has: asked of a server with `auth_query`.

use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::auth::{Lookup, Secret};
use crate::core::event_loop::EventLoop;
use crate::core::server::Question;
use crate::core::shared::Login;
use crate::wire::error::{Refusal, code};

impl<R: Reactor> EventLoop<R> {
    /// The answer of `auth_query`: the secret of the user, if there is one.
    pub(in crate::core) fn secret_found(
        &mut self,
        reactor: &mut R,
        index: usize,
        id: u64,
        rows: &[Vec<Option<String>>],
        failed: bool,
    ) {
        let Some(client) = self.clients.get_mut(index).filter(|client| client.id == id) else {
            return;
        };
        let Some(entrance) = client.take_entrance() else {
            return;
        };
        if failed {
            let refusal = Refusal::new(code::CANNOT_CONNECT, "could not look up the user")
                .hint("The pooler's log says why auth_query failed.");
            return self.refuse_client(reactor, index, &refusal);
        }
        let user = Arc::clone(&client.user);
        let row = rows.first();
        // The name must be the one asked for: a query that folds names could give another user's secret.
        let named = row.and_then(|row| row.first()?.as_deref()) == Some(&*user);
        let secret = row
            .filter(|_| named)
            .and_then(|row| row.get(1)?.as_deref())
            .and_then(|text| Secret::parse(text.as_bytes()));
        if let Some(secret) = &secret {
            self.shared
                .keep_secret(Login::of_client(&client.database, &user), secret.clone());
        }
        let lookup = match (&secret, named) {
            (Some(secret), _) => Lookup::Found(secret),
            (None, true) => Lookup::NoSecret,
            (None, false) => Lookup::Unknown,
        };
        self.authenticate(reactor, index, entrance, lookup);
    }

    /// Asks a server for a user's secret. `false`: nobody is there to be asked.
    pub(in crate::core) fn ask_for_secret(&mut self, reactor: &mut R, index: usize) -> bool {
        let Some(client) = self.clients.get(index) else {
            return false;
        };
        let Some(effective) = self.files.effective(&client.database, &client.user) else {
            return false;
        };
        let Some(auth_user) = effective.auth_user.clone() else {
            return false;
        };
        let database: Arc<str> = match &effective.auth_dbname {
            Some(name) => name.as_str().into(),
            None => Arc::clone(&client.database),
        };
        let user: Arc<str> = auth_user.as_str().into();
        let question = Question::Secret {
            client: index,
            id: client.id,
        };
        let sql = effective
            .auth_query
            .replace("$1", &crate::session::settings::literal(&client.user));
        self.ask_server(reactor, &database, &user, 0, question, sql)
    }
}
