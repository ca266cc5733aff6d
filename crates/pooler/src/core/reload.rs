//! A changed configuration, as an event loop takes it over.

use std::collections::HashMap;
use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::core::config_files::ConfigFiles;
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::parts::Splits;
use crate::core::pool::removed;
use crate::core::route::balance::Balance;

impl<R: Reactor> EventLoop<R> {
    /// Takes over a changed configuration. Pools whose databases are gone serve nobody, and end with their clients; one that comes
    /// back before is as it was.
    pub(super) fn change_config(&mut self, reactor: &mut R, files: Arc<ConfigFiles>) {
        let tls = |files: &ConfigFiles| files.config.settings_of("server_tls_");
        let tls_changed = tls(&self.files) != tls(&files);
        if tls_changed {
            // Those on their way between loops.
            self.reconnects += 1;
        }
        self.files = files;
        // Opened again with the hosts and settings of now.
        self.hosts.fleets.clear();
        let mut refused = Vec::new();
        let mut sizes = Vec::new();
        // Why servers of which pools must go.
        let mut closing = HashMap::new();
        let disabled = self.shared.stopped.lock().disabled.clone();
        for (index, pool) in &mut self.pools {
            let effective = self.files.effective_of(&pool.key);
            pool.gone = effective.is_none();
            pool.disabled = pool.gone || disabled.contains(&*pool.key.database);
            let Some(effective) = effective else {
                refused.extend(pool.waiting.drain().iter().map(|waiting| waiting.client));
                // Those that linger on a server are between transactions, too.
                let lingering = pool
                    .lingering
                    .iter()
                    .filter_map(|&server| self.servers.get(server));
                refused.extend(lingering.filter_map(|server| server.user.client));
                closing.insert(index, "the database is not configured any more");
                self.todo.extend(pool.idle.take().into_iter().map(Todo::Free));
                continue;
            };
            let moved = tls_changed || effective.moves(&pool.effective);
            pool.effective = effective;
            pool.hosts = Balance::of(&pool.effective);
            if moved {
                pool.queries_of = vec![0; pool.effective.hosts.len()];
            }
            pool.waiting
                .configure(pool.effective.cohorts, &self.files.config.corun);
            if pool.key.core_pool == 0 {
                let (size, reserve) = self.files.sizes(&pool.effective, self.shared.mailboxes.len());
                sizes.push((index, size, reserve));
            }
            if moved {
                pool.failed = None;
                closing.insert(index, "database configuration changed");
                self.todo.extend(pool.idle.take().into_iter().map(Todo::Free));
            }
        }
        let statements_max = self.files.config.proxy.max_prepared_statements as usize;
        for (_, server) in &mut self.servers {
            server.session.statements.keep_at_most(statements_max);
            if let Some(&why) = closing.get(&server.pool) {
                server.life.closing = Some(why);
            }
        }
        self.forget_ranges();
        // Other functions may be trusted.
        self.shared.catalogues.forget();
        let old = std::mem::take(&mut self.splits);
        self.splits = Splits::of(&self.files.config, &mut self.classifier, old);
        for (index, size, reserve) in sizes {
            self.arrange_core_pools(index, size, reserve);
        }
        for index in refused {
            if let Some(client) = self.clients.get_mut(index) {
                client.wait.leave();
                let refusal = removed(&client.database);
                self.refuse_client(reactor, index, &refusal);
            }
        }
    }
}
