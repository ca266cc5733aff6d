//! A small world of lockable things, and clients in threads of their own that do what a test tells them.

use corun_store::lock::{
    Got, Holder, LockError, LockMark, LockOptions, LockWord, Locks, RangeKey, RangeLocks, RowMode, RowName,
    TableLock, TableMode,
};
use corun_store::park::ThreadPark;
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Far beyond what anything here takes: a test that meets it has failed.
pub const FOR_EVER: Duration = Duration::from_secs(120);

pub struct World {
    pub locks: Arc<Locks>,
    pub tables: Vec<Arc<TableLock>>,
    pub ranges: Vec<Arc<RangeLocks>>,
    words: Vec<LockWord>,
}

pub fn row(rid: u32) -> RowName {
    RowName { table: 7, rid }
}

pub fn key(at: u64) -> RangeKey {
    [at, 0, 0, 0, 0, 0, 0, 0]
}

pub fn patient() -> LockOptions {
    LockOptions {
        timeout: FOR_EVER,
        ..LockOptions::default()
    }
}

impl World {
    pub fn new(options: LockOptions) -> Arc<World> {
        Arc::new(World {
            locks: Arc::new(Locks::new(options)),
            tables: (0..16).map(TableLock::new).collect(),
            ranges: (0..16).map(RangeLocks::new).collect(),
            words: (0..1024).map(|_| LockWord::new()).collect(),
        })
    }

    pub fn word(&self, name: RowName) -> &LockWord {
        assert_eq!(name.table, 7);
        &self.words[name.rid as usize]
    }

    /// Nothing is left of anybody.
    pub fn assert_free(&self) {
        assert!(self.words.iter().all(LockWord::is_free), "a row is still locked");
        assert!(
            self.tables.iter().all(|table| table.is_free()),
            "a table is still locked"
        );
        assert!(
            self.ranges.iter().all(|ranges| ranges.holders() == 0),
            "an interval is still locked"
        );
        assert_eq!(self.locks.counts().waiting, 0);
    }

    /// A client on the calling thread.
    pub fn here(self: &Arc<Self>) -> Client {
        Client {
            holder: self.locks.begin(ThreadPark::current()).unwrap(),
            world: Arc::clone(self),
        }
    }

    /// Returns when so many clients wait.
    pub fn until_waiting(&self, count: u32) {
        until(|| self.locks.counts().waiting == count);
    }
}

pub fn until(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < FOR_EVER, "it never came about");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// One client with the words of the world at hand.
pub struct Client {
    pub holder: Holder,
    pub world: Arc<World>,
}

impl Client {
    pub fn s(&mut self, rid: u32) -> Result<Got, LockError> {
        self.holder.row(row(rid), self.world.word(row(rid)), RowMode::S)
    }

    pub fn x(&mut self, rid: u32) -> Result<Got, LockError> {
        self.holder.row(row(rid), self.world.word(row(rid)), RowMode::X)
    }

    /// X on each, which nobody else has.
    pub fn all_x(&mut self, rids: impl IntoIterator<Item = u32>) {
        for rid in rids {
            self.x(rid).unwrap();
        }
    }

    pub fn row(&mut self, rid: u32, mode: RowMode) -> Result<Got, LockError> {
        self.holder.row(row(rid), self.world.word(row(rid)), mode)
    }

    pub fn try_row(&mut self, rid: u32, mode: RowMode) -> Option<Got> {
        self.holder
            .try_row(row(rid), self.world.word(row(rid)), mode)
            .unwrap()
    }

    pub fn table(&mut self, table: usize, mode: TableMode) -> Result<Got, LockError> {
        self.holder.table(&self.world.tables[table], mode)
    }

    pub fn range(&mut self, index: usize, lo: u64, hi: u64) {
        self.holder
            .range(&self.world.ranges[index], &key(lo), &key(hi))
            .unwrap();
    }

    pub fn pass(&mut self, index: usize, at: u64) -> Result<(), LockError> {
        self.holder.pass(&self.world.ranges[index], &key(at))
    }

    pub fn back_to(&mut self, mark: &LockMark) {
        let world = Arc::clone(&self.world);
        self.holder.release_to(mark, |name| world.word(name));
    }

    pub fn end(&mut self) {
        let world = Arc::clone(&self.world);
        self.holder.release_all(|name| world.word(name));
    }
}

type Step = Box<dyn FnOnce(&mut Client) + Send>;

/// A client on a thread of its own.
pub struct Remote {
    steps: Option<Sender<Step>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// An answer that may take a while.
pub struct Pending<T>(Receiver<T>);

impl<T> Pending<T> {
    pub fn get(self) -> T {
        self.0.recv_timeout(FOR_EVER).expect("the client never answered")
    }
}

impl Remote {
    pub fn new(world: &Arc<World>) -> Remote {
        let (steps, todo) = channel::<Step>();
        let world = Arc::clone(world);
        let thread = std::thread::spawn(move || {
            let mut client = world.here();
            for step in todo {
                step(&mut client);
            }
            client.end();
        });
        Remote {
            steps: Some(steps),
            thread: Some(thread),
        }
    }

    pub fn start<T: Send + 'static>(
        &self,
        step: impl FnOnce(&mut Client) -> T + Send + 'static,
    ) -> Pending<T> {
        let (answer, pending) = channel();
        let step: Step = Box::new(move |client| drop(answer.send(step(client))));
        self.steps.as_ref().unwrap().send(step).unwrap();
        Pending(pending)
    }

    pub fn run<T: Send + 'static>(&self, step: impl FnOnce(&mut Client) -> T + Send + 'static) -> T {
        self.start(step).get()
    }

    pub fn end(&self) {
        self.run(Client::end);
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        drop(self.steps.take());
        if let Some(thread) = self.thread.take()
            && !std::thread::panicking()
        {
            thread.join().unwrap();
        }
    }
}

/// A plain number that only locks guard: the thread sanitizer, or a wrong sum, tells if they do not.
#[derive(Default)]
pub struct Guarded(UnsafeCell<u64>);

// SAFETY: the tests read and write it under the lock of the row that it stands for; that is what they test.
unsafe impl Sync for Guarded {}

impl Guarded {
    /// Under S or X.
    pub fn get(&self) -> u64 {
        // SAFETY: the caller holds S or X, so nobody writes.
        unsafe { *self.0.get() }
    }

    /// Under X.
    pub fn set(&self, value: u64) {
        // SAFETY: the caller holds X, so nobody else reads or writes.
        unsafe { *self.0.get() = value }
    }
}

/// A generator of the tests' own, from a seed.
pub struct Random(u64);

impl Random {
    pub fn seeded(seed: u64) -> Random {
        Random(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
