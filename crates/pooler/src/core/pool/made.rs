//! The pools of an event loop: found, or made when somebody needs them first.

use std::sync::Arc;

use corun_net::reactor::Reactor;

use crate::config::Effective;
use crate::core::event_loop::EventLoop;
use crate::core::pool::cohorts::Queue;
use crate::core::pool::process::Idle;
use crate::core::pool::{Pool, PoolKey};
use crate::core::route::fleet::PROBE;
use corun_wire::error::{Refusal, code};

impl<R: Reactor> EventLoop<R> {
    /// The pool for clients of a database and user, made when it is not there.
    pub(in crate::core) fn pool(
        &mut self,
        database: &Arc<str>,
        user: &Arc<str>,
        host: usize,
    ) -> Result<usize, Refusal> {
        let user = self.files.server_user(database, user);
        self.pool_as(database, &user, host)
    }

    /// The pool of a database whose servers are logged in to as `user`.
    pub(in crate::core) fn pool_as(
        &mut self,
        database: &Arc<str>,
        user: &Arc<str>,
        host: usize,
    ) -> Result<usize, Refusal> {
        let key = PoolKey {
            database: Arc::clone(database),
            user: Arc::clone(user),
            host,
            core_pool: 0,
        };
        let known = self.pool_of.get(&key).copied();
        if let Some(pool) = known.filter(|&pool| self.pools.get(pool).is_some_and(|pool| !pool.gone)) {
            return Ok(pool);
        }
        let Some(effective) = self.files.effective_of(&key) else {
            return Err(
                Refusal::new(code::INVALID_CATALOG, format!("no such database: {database}"))
                    .hint("The pooler's configuration names neither this database nor \"*\"."),
            );
        };
        if effective.wildcard
            && !self
                .pools
                .iter()
                .any(|(_, pool)| *pool.key.database == **database)
        {
            tracing::info!("registered new auto-database: db={database}");
        }
        let probe = host & PROBE != 0;
        let (size, reserve) = self.files.sizes(&effective, self.shared.mailboxes.len());
        let pool = self.make_pool(key, effective);
        if probe {
            (self.pools[pool].size, self.pools[pool].share) = (1, 1);
        } else {
            self.arrange_core_pools(pool, size, reserve);
        }
        Ok(pool)
    }

    fn make_pool(&mut self, key: PoolKey, effective: Arc<Effective>) -> usize {
        let queue = Queue::new(effective.cohorts, &self.files.config.corun);
        // Each loop probes for itself.
        let all = match key.host & PROBE {
            0 => self.shared.pools.of(key.servers()),
            _ => self.shared.pools.alone(),
        };
        let mut made = Pool::new(key.clone(), effective, queue, Idle::new(self.index, all));
        {
            let stopped = self.shared.stopped.lock();
            made.paused = stopped.is_paused(&key.database);
            made.disabled = stopped.disabled.contains(&*key.database);
        }
        let pool = self.pools.insert(made);
        self.pools[pool].first_core_pool = pool;
        self.pool_of.insert(key, pool);
        pool
    }

    /// The pool of a core pool, made when it is not there.
    pub(in crate::core) fn core_pool_at(
        &mut self,
        key: PoolKey,
        effective: &Arc<Effective>,
        first: usize,
    ) -> usize {
        let known = self.pool_of.get(&key).copied();
        let pool = match known.filter(|&pool| self.pools.contains(pool)) {
            Some(pool) => pool,
            None => self.make_pool(key, Arc::clone(effective)),
        };
        if let Some(pool) = self.pools.get_mut(pool) {
            pool.first_core_pool = first;
        }
        pool
    }
}
