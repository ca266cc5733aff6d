//! Secrets of users that no file has: asked of a server with `auth_query`.

use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::config::CONSOLES;
use crate::core::client::log_client;
use crate::core::event_loop::EventLoop;
use crate::core::server::Question;
use crate::core::shared::Login;
use corun_wire::auth::{Lookup, Secret};
use corun_wire::error::{Refusal, code};

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
            let refusal = Refusal::new(code::CANNOT_CONNECT, "bouncer config error")
                .detail("The user could not be looked up.")
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
        if matches!(
            (&lookup, entrance.method),
            (Lookup::Unknown, corun_wire::auth::Method::Trust)
        ) {
            // Who exists is no secret where nobody proves anything.
            let refusal = Refusal::new(code::INVALID_AUTHORIZATION, "no such user");
            return self.refuse_client(reactor, index, &refusal);
        }
        self.authenticate(reactor, index, entrance, lookup);
    }

    /// Asks a server for a user's secret. `Ok(false)`: nobody is there to be asked.
    ///
    /// # Errors
    /// With what the client is told when the database that is to be asked cannot be.
    pub(in crate::core) fn ask_for_secret(&mut self, reactor: &mut R, index: usize) -> Result<bool, Refusal> {
        let Some(client) = self.clients.get(index) else {
            return Ok(false);
        };
        let proxy = &self.files.config.proxy;
        let (auth_user, auth_query, auth_dbname) = match self.files.effective(&client.database, &client.user)
        {
            Some(effective) => (
                effective.auth_user.clone(),
                effective.auth_query.clone(),
                effective.auth_dbname.clone(),
            ),
            // The console is in no database of its own.
            None if CONSOLES.contains(&&*client.database) => (
                proxy.auth_user.clone(),
                proxy.auth_query.clone(),
                Some(
                    proxy
                        .auth_dbname
                        .clone()
                        .unwrap_or_else(|| client.database.to_string()),
                ),
            ),
            None => return Ok(false),
        };
        let Some(auth_user) = auth_user else {
            return Ok(false);
        };
        let wrong = || Refusal::new(code::CONFIG_FILE, "bouncer config error");
        let database: Arc<str> = match auth_dbname {
            Some(name) if CONSOLES.contains(&&*name) => {
                log_client!(
                    client,
                    "cannot use the reserved \"{name}\" database as an auth_dbname"
                );
                return Err(wrong());
            }
            Some(name) if self.files.effective(&name, &auth_user).is_none() => {
                log_client!(client, "authentication database \"{name}\" is not configured");
                return Err(wrong());
            }
            Some(name) => name.into(),
            None => Arc::clone(&client.database),
        };
        if self.shared.stopped.lock().disabled.contains(&*database) {
            let what = format!("authentication database \"{database}\" is disabled");
            return Err(Refusal::new(code::INVALID_CATALOG, what));
        }
        let user: Arc<str> = auth_user.into();
        let question = Question::Secret {
            client: index,
            id: client.id,
        };
        let sql = auth_query.replace("$1", &crate::session::settings::literal(&client.user));
        Ok(self.ask_server(reactor, &database, &user, 0, question, sql))
    }
}
