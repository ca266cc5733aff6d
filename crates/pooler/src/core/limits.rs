//! Time limits, looked at a few times a second.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use corun_net::reactor::Reactor;

use crate::config::PoolMode;
use crate::core::client::Phase;
use crate::core::event_loop::{EventLoop, Todo};
use crate::core::route::fleet::PROBE;
use crate::core::server::answered;
use crate::core::server::connect::{Attempt, CONNECT_TIMEOUT};
use crate::core::server::{Question, Task, TaskKind};
use crate::core::stages::StageTask;
use corun_wire::TransactionStatus;
use corun_wire::build;
use corun_wire::error::{Refusal, code};

/// Pools without clients, connections and work that are kept: more are dropped when their time is over.
const POOLS_LOOKED_AT: usize = 1 << 16;

/// Pools above which those that nobody uses are forgotten at once.
const UNUSED_POOLS_MAX: usize = 1 << 14;

impl<R: Reactor> EventLoop<R> {
    /// Looks at all time limits, makes connections that are wanted and closes those that are not.
    pub(super) fn tick(&mut self, reactor: &mut R) {
        self.measure_memory(reactor);
        self.limit_clients(reactor);
        self.limit_servers(reactor);
        self.cancels_tick(reactor);
        self.dispatch_tick();
        self.bind_tick();
        self.heavy_queue_tick(reactor);
        self.fleet_tick(reactor);
        self.run_questions(reactor);
        self.listening_tick(reactor);
        self.consoles_tick();
        self.tick_pools();
        self.lingering_tick(reactor);
        self.forget_unused();
        self.stats_tick();
        self.ending_tick(reactor);
    }

    fn limit_clients(&mut self, reactor: &mut R) {
        let proxy = &self.files.config.proxy;
        let login = proxy.client_login_timeout;
        let mut over: Vec<(usize, Refusal)> = Vec::new();
        let mut told: Vec<usize> = Vec::new();
        for (index, client) in &self.clients {
            let mut end = |code, limit: &str| over.push((index, Refusal::new(code, limit)));
            let quiet = self.now.saturating_sub(client.since);
            let passed = |limit: Duration, time: Duration| !limit.is_zero() && time > limit;
            if !client.is_ready() && client.wait.pool().is_none() && !matches!(client.phase, Phase::Console) {
                let entering = self.now.saturating_sub(client.connected);
                if passed(login, entering) {
                    end(code::CANNOT_CONNECT_NOW, "client_login_timeout");
                    continue;
                }
            }
            let Some(pool) = self.pools.get(client.pool) else {
                continue;
            };
            let effective = &pool.effective;
            let queues = client.queues();
            if client.wait.waits() || queues {
                let waited = self.now.saturating_sub(client.wait.since);
                if passed(effective.query_wait_timeout, waited) {
                    let why = match &pool.failed {
                        _ if queues => "The query waited in the heavy queue.",
                        Some((failed, _)) => &failed.message,
                        None => "No server connection came free in time.",
                    };
                    let refusal = Refusal::new(code::CANNOT_CONNECT_NOW, "query_wait_timeout").detail(why);
                    over.push((index, refusal));
                } else if !queues && passed(effective.query_timeout, waited) {
                    end(code::QUERY_CANCELED, "query_timeout");
                } else if passed(proxy.query_wait_notify, waited) && !client.wait.told && client.is_ready() {
                    told.push(index);
                }
                continue;
            }
            let Some(server) = client.server.and_then(|server| self.servers.get(server)) else {
                if let Some(begun) = &client.begun {
                    let lasted = self.now.saturating_sub(begun.since);
                    if passed(effective.transaction_timeout, lasted) {
                        end(code::QUERY_CANCELED, "transaction timeout");
                    } else if passed(effective.idle_transaction_timeout, quiet) {
                        end(code::IDLE_IN_TRANSACTION_TIMEOUT, "idle transaction timeout");
                    }
                } else if client.is_ready() && passed(effective.client_idle_timeout, quiet) {
                    end(code::IDLE_TIMEOUT, "client_idle_timeout");
                }
                continue;
            };
            let plans = |task: &Task| matches!(task.kind, TaskKind::Stage(StageTask::Plan(_)));
            if server.task.as_ref().is_some_and(|task| !plans(task)) && server.stages.job.is_none() {
                continue;
            }
            let working =
                server.stages.job.is_some() || server.expects.outstanding() > 0 || server.expects.open();
            let in_transaction =
                server.session.status != TransactionStatus::Idle || working || client.transaction.began;
            let query = self.now.saturating_sub(server.query.since);
            let transaction = self.now.saturating_sub(server.query.transaction_since);
            // The end of an answer is something that happened, too.
            let quiet = quiet.min(query);
            if working && passed(effective.query_timeout, query) {
                end(code::QUERY_CANCELED, "query timeout");
            } else if in_transaction && passed(effective.transaction_timeout, transaction) {
                end(code::QUERY_CANCELED, "transaction timeout");
            } else if server.expects.outstanding() == 0
                && in_transaction
                && passed(effective.idle_transaction_timeout, quiet)
            {
                end(code::IDLE_IN_TRANSACTION_TIMEOUT, "idle transaction timeout");
            } else if !in_transaction && passed(effective.client_idle_timeout, quiet) {
                end(code::IDLE_TIMEOUT, "client_idle_timeout");
            }
        }
        for index in told {
            if let Some(client) = self.clients.get_mut(index) {
                client.wait.told = true;
                let mut out = Vec::new();
                build::notice(
                    &mut out,
                    &Refusal::new("00000", "no server connection available, waiting in the queue"),
                );
                client.transport.send(reactor, &out);
            }
        }
        for (index, refusal) in over {
            self.refuse_client(reactor, index, &refusal);
        }
    }

    fn limit_servers(&mut self, reactor: &mut R) {
        let proxy = &self.files.config.proxy;
        let connecting = proxy.server_connect_timeout;
        let health = self.files.config.corun.health_check_timeout;
        let idle = proxy.server_idle_timeout;
        let mut late = Vec::new();
        let mut done: Vec<(usize, &'static str)> = Vec::new();
        let mut replaced: Vec<(usize, &'static str)> = Vec::new();
        let mut shrunk: HashSet<usize> = HashSet::new();
        for (index, server) in &self.servers {
            if !server.is_ready() {
                let probes = self
                    .pools
                    .get(server.pool)
                    .is_some_and(|pool| pool.key.host & PROBE != 0);
                let limit = match connecting {
                    Duration::ZERO if probes => health,
                    limit if probes => limit.min(health),
                    limit => limit,
                };
                if !limit.is_zero() && self.now.saturating_sub(server.life.created) > limit {
                    late.push(index);
                }
                continue;
            }
            // The next probe needs a connection that answers.
            if let Some(task) = &server.task
                && matches!(task.kind, TaskKind::Ask(Question::Health { .. }))
                && self.now.saturating_sub(server.query.since) > health
            {
                done.push((index, "the other side did not respond to a probe"));
                continue;
            }
            if let (Some(client), Some(why)) = (server.user.client, server.life.closing)
                && proxy.server_fast_close
                && server.is_between_transactions()
                && self
                    .pools
                    .get(server.pool)
                    .is_some_and(|pool| pool.effective.pool_mode == PoolMode::Session)
            {
                replaced.push((client, why));
            }
            if server.stages.hub.is_some()
                && let Some(why) = server.life.closing
            {
                done.push((index, why));
            }
            if server.is_used() || server.task.is_some() || server.process.cancels.under_way() > 0 {
                continue;
            }
            let Some(pool) = self.pools.get(server.pool) else {
                done.push((index, "the pool is gone"));
                continue;
            };
            let unused = self.now.saturating_sub(server.life.since);
            let above_minimum = pool.all.servers() > pool.minimum();
            let above_maximum = pool.share == 0 || pool.all.servers() > pool.size.max(1) + pool.reserve;
            if let Some(why) = server.life.closing {
                done.push((index, why));
            } else if above_maximum && shrunk.insert(server.pool) {
                // One at a time: what the pool has is counted anew then.
                done.push((index, "the pool has become smaller"));
            } else if self.now.saturating_sub(server.life.created) >= pool.effective.server_lifetime
                && server.life.used
            {
                done.push((index, "server lifetime over"));
            } else if !idle.is_zero() && unused > idle && above_minimum {
                done.push((index, "server idle timeout"));
            }
        }
        for index in late {
            let refusal = Refusal::new(code::CANNOT_CONNECT, CONNECT_TIMEOUT)
                .detail("Connecting or logging in to the server took too long.");
            self.server_failed(reactor, index, refusal);
        }
        for (index, why) in done {
            self.close_server(reactor, index, why);
        }
        for (client, why) in replaced {
            self.refuse_client(reactor, client, &answered::replaced(why));
        }
    }

    fn tick_pools(&mut self) {
        self.open_forced_pools();
        for (index, pool) in self.pools.iter().take(POOLS_LOOKED_AT) {
            let wanted = !pool.waiting.is_empty();
            let below = !pool.paused && pool.keeps_minimum() && pool.all.servers() < pool.minimum();
            if wanted || below {
                self.todo.push_back(Todo::Connect(index));
            }
        }
    }

    /// Forgets pools that nobody has used for long: of databases that are in no table of their own, and of those that are gone.
    fn forget_unused(&mut self) {
        let limit = self.files.config.proxy.autodb_idle_timeout;
        let asked = |index: usize| self.questions.iter().any(|(pool, _, _)| *pool == index);
        let used: HashSet<Arc<str>> = self
            .pools
            .iter()
            .filter(|(index, pool)| !pool.is_unused() || asked(*index))
            .map(|(_, pool)| Arc::clone(&pool.key.database))
            .collect();
        let mut over = Vec::new();
        let crowded = self.pools.len() > UNUSED_POOLS_MAX;
        for (index, pool) in &mut self.pools {
            // Core pools go with the first of them.
            if pool.key.core_pool > 0 {
                continue;
            }
            if used.contains(&pool.key.database) || !(pool.gone || pool.effective.wildcard) {
                pool.unused_since = None;
                continue;
            }
            let since = *pool.unused_since.get_or_insert(self.now);
            if pool.gone || crowded || (!limit.is_zero() && self.now.saturating_sub(since) >= limit) {
                over.push(index);
                over.extend(pool.core_pools.iter().filter(|&&core_pool| core_pool != index));
            }
        }
        for index in over {
            let Some(pool) = self.pools.try_remove(index) else {
                continue;
            };
            pool.all.hunger(self.index, None);
            self.pool_of.remove(&pool.key);
            self.hosts.fleets.remove(&pool.key.database);
            tracing::debug!(
                database = &*pool.key.database,
                user = &*pool.key.user,
                "an unused pool is forgotten"
            );
        }
    }

    /// Pools of databases that log in to the server as a user of their own keep their connections also without clients.
    fn open_forced_pools(&mut self) {
        if self.index != 0 {
            return;
        }
        let files = Arc::clone(&self.files);
        for (name, database) in &files.config.databases {
            if let Some(user) = &database.user
                && database.min_pool_size.unwrap_or(files.config.proxy.min_pool_size) > 0
            {
                // What cannot be is told to clients when they come.
                let _ = self.pool(&name.as_str().into(), &user.as_str().into(), 0);
            }
        }
    }

    /// Makes the connections a pool keeps without work.
    pub(super) fn keep_minimum(&mut self, reactor: &mut R, index: usize) {
        while let Some(pool) = self.pools.get(index)
            && !pool.paused
            && !pool.disabled
            && pool.keeps_minimum()
            && pool.all.servers() < pool.minimum()
            && pool.failed.as_ref().is_none_or(|(_, until)| self.now >= *until)
            && self.connect(reactor, index, pool.minimum()) == Attempt::Begun
        {}
    }
}
