//! [`UserShare`]: what the sessions of one user share: their memory, and how many of their queries run at a time.

use crate::users::UserLimits;
use corun_datafusion::memory_limited;
use datafusion::common::DataFusionError;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use parking_lot::Mutex;
use std::fmt;
use std::sync::{Arc, Weak};
use tokio::sync::Notify;

/// See [`self`].
#[derive(Debug)]
pub(super) struct UserShare {
    pub(super) memory_bytes: Option<usize>,
    /// `None`: the memory of all.
    pub(super) env: Option<Arc<RuntimeEnv>>,
    running: Mutex<usize>,
    ended: Notify,
}

impl UserShare {
    /// That of a user with these limits, of what all have.
    ///
    /// # Errors
    /// A file system without a place for temporary files.
    pub(super) fn new(user: &str, limits: &UserLimits, all: &RuntimeEnv) -> Result<Self> {
        let env = limits.memory_bytes.map(|bytes| {
            let own =
                memory_limited(Some(bytes)).map_err(|error| DataFusionError::External(Box::new(error)))?;
            let pool = UserPool {
                user: user.to_owned(),
                bytes,
                own: Arc::clone(&own.memory_pool),
                all: Arc::clone(&all.memory_pool),
            };
            RuntimeEnvBuilder::from_runtime_env(all)
                .with_memory_pool(Arc::new(pool))
                .build_arc()
        });
        Ok(UserShare {
            memory_bytes: limits.memory_bytes,
            env: env.transpose()?,
            running: Mutex::new(0),
            ended: Notify::new(),
        })
    }

    /// Waits until fewer than `most` queries of the user run. May be dropped while it waits.
    pub(super) async fn turn(self: &Arc<Self>, most: usize) -> Arc<Turn> {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // Listens before it looks, so that no end is missed.
            ended.as_mut().enable();
            if let Some(turn) = self.turn_now(most) {
                return turn;
            }
            ended.await;
        }
    }

    /// The same without waiting; `None`: so many run.
    pub(super) fn turn_now(self: &Arc<Self>, most: usize) -> Option<Arc<Turn>> {
        let mut running = self.running.lock();
        if *running >= most {
            return None;
        }
        *running += 1;
        Some(Arc::new(Turn(Arc::new(Place(Arc::clone(self))))))
    }
}

/// A query of a user that runs.
#[derive(Debug)]
pub(super) struct Turn(Arc<Place>);

/// One of so many that a user has.
#[derive(Debug)]
struct Place(Arc<UserShare>);

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.running.lock() -= 1;
        self.0.ended.notify_one();
    }
}

/// The turns that a session has: those of its cursors, of its portals and of its statement.
#[derive(Debug, Default)]
pub(super) struct SessionTurns(Vec<Weak<Turn>>);

impl SessionTurns {
    /// Another turn of a session that has some already. It does not wait: it might wait for itself. A cursor and a statement beside it have one
    /// place together. `Ok(None)`: the session has none. `Err`: all places are taken.
    pub(super) fn another(&mut self, share: &Arc<UserShare>, most: usize) -> Result<Option<Arc<Turn>>, ()> {
        self.0.retain(|turn| turn.strong_count() > 0);
        let turn = match self.0.as_slice() {
            [] => return Ok(None),
            [only] => match only.upgrade() {
                Some(turn) => Arc::new(Turn(Arc::clone(&turn.0))),
                None => return Ok(None),
            },
            _ => share.turn_now(most).ok_or(())?,
        };
        self.add(&turn);
        Ok(Some(turn))
    }

    pub(super) fn add(&mut self, turn: &Arc<Turn>) {
        self.0.push(Arc::downgrade(turn));
    }
}

/// Memory of one user within that of all.
#[derive(Debug)]
struct UserPool {
    user: String,
    bytes: usize,
    own: Arc<dyn MemoryPool>,
    all: Arc<dyn MemoryPool>,
}

impl fmt::Display for UserPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "memory of {}: {} of {} bytes",
            self.user,
            self.own.reserved(),
            self.bytes
        )
    }
}

impl MemoryPool for UserPool {
    fn name(&self) -> &str {
        "memory of a user"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.own.register(consumer);
        self.all.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.own.unregister(consumer);
        self.all.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.own.grow(reservation, additional);
        self.all.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.own.shrink(reservation, shrink);
        self.all.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.own
            .try_grow(reservation, additional)
            .map_err(|error| match error {
                DataFusionError::ResourcesExhausted(what) => DataFusionError::ResourcesExhausted(format!(
                    "the memory of user \"{}\": {what}",
                    self.user
                )),
                other => other,
            })?;
        let all = self.all.try_grow(reservation, additional);
        all.inspect_err(|_| self.own.shrink(reservation, additional))
    }

    fn reserved(&self) -> usize {
        self.own.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        let own = MemoryLimit::Finite(self.bytes);
        match self.all.memory_limit() {
            MemoryLimit::Finite(all) if all < self.bytes => MemoryLimit::Finite(all),
            _ => own,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_a_part_of_that_of_all() {
        let all = memory_limited(Some(1000)).unwrap();
        let limits = UserLimits {
            memory_bytes: Some(600),
            ..UserLimits::default()
        };
        let share = |user| UserShare::new(user, &limits, &all).unwrap().env.unwrap();
        let (ann, bob) = (share("ann"), share("bob"));
        let of = |env: &RuntimeEnv| MemoryConsumer::new("test").register(&env.memory_pool);
        let (first, second, third) = (of(&ann), of(&ann), of(&bob));
        first.try_grow(400).unwrap();
        let refused = second.try_grow(300).unwrap_err().to_string();
        assert!(refused.contains("user \"ann\""), "{refused}");
        third.try_grow(500).unwrap();
        // Ann has room, all have not; nothing is left behind by who is refused.
        assert!(second.try_grow(150).is_err());
        assert_eq!(
            (ann.memory_pool.reserved(), all.memory_pool.reserved()),
            (400, 900)
        );
        drop((first, second, third));
        assert_eq!((ann.memory_pool.reserved(), all.memory_pool.reserved()), (0, 0));
    }

    #[tokio::test]
    async fn turns_are_handed_on() {
        let all = memory_limited(None).unwrap();
        let share = Arc::new(UserShare::new("ann", &UserLimits::default(), &all).unwrap());
        let first = share.turn(1).await;
        let waits = tokio::spawn({
            let share = Arc::clone(&share);
            async move { drop(share.turn(1).await) }
        });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        drop(first);
        waits.await.unwrap();
        assert_eq!(*share.running.lock(), 0);
    }
}
