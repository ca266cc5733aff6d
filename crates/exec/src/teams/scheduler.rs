//! [`Scheduler`]: runs members on one OS thread; [`Scope`]: where they are spawned; [`Control`]: its settings and statistics.

use std::any::Any;
use std::cell::{RefCell, UnsafeCell};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use corun_model::teams::{Mapping, NextTeam, OperationStatistics, TeamsMode};

use super::core::{self, Core};
use super::local::{self, CTX_OFF, FLOAT};
use super::member::{Body, Member};
use super::overflow;
use super::point;
use super::stack::{STACK_BYTES_MIN, Stack};
use super::switch::SUPPORTED;
use super::token::Token;

/// Members of a team, by default. In the C probe of the project 16 gained most on data beyond the caches.
pub const TEAM_SIZE_MAX: usize = 16;
/// Stack of a member, by default. Only pages that are touched take memory.
pub const STACK_BYTES: usize = 256 << 10;

/// How a scheduler runs its members.
#[derive(Clone, Debug)]
pub struct TeamOptions {
    /// Members of a team at most; the others of a list wait for its next team. At least 1.
    pub team_size_max: usize,
    /// Stack of each member; at least 32 KiB.
    pub stack_bytes: usize,
    /// Which operation runs next.
    pub next_team: NextTeam,
    /// How often in a row a member may begin another operation of its team's list without leaving the team, as long as it is not the
    /// last of it. 0: never, as in paper 003, where a member that is done waits for the others each time.
    pub repeats_max: u32,
    /// Whether CTX points that are on switch.
    pub ctx: bool,
    /// Whether a switch also exchanges floating-point control words and saves vector registers. Without it all members share the
    /// control words.
    pub float: bool,
}

impl Default for TeamOptions {
    fn default() -> Self {
        TeamOptions {
            team_size_max: TEAM_SIZE_MAX,
            stack_bytes: STACK_BYTES,
            next_team: NextTeam::default(),
            repeats_max: 0,
            ctx: true,
            float: false,
        }
    }
}

/// Why a scheduler could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TeamError {
    /// No switch has been written for this machine.
    #[error("user-level threads need Linux on x86-64 or aarch64; run clients as OS threads here")]
    Unsupported,
    /// A team without members.
    #[error("team_size_max is 0; a team has at least one member")]
    TeamSize,
    /// Too little stack.
    #[error("stacks of {bytes} bytes are too small; at least {STACK_BYTES_MIN} are needed")]
    StackBytes {
        /// What was asked for.
        bytes: usize,
    },
    /// The system refused what members that use up their stack are noticed with.
    #[error("cannot handle stack overflows of members: {0}")]
    Overflow(#[source] std::io::Error),
}

/// Why a member has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum Lost {
    /// It panicked; with what.
    Panicked(Box<dyn Any + Send>),
    /// It used up its stack. Its frames are forgotten as if it slept for ever: what it had locked stays locked.
    Overflowed {
        /// Which member, how much stack, and what to set.
        message: String,
    },
    /// The system gave no memory for its stack; it never ran.
    Stack(std::io::Error),
}

/// The part that a scheduler and its controls share.
#[repr(transparent)]
pub(super) struct Shared(UnsafeCell<Core>);

/// Runs user-level threads on the thread that made it.
///
/// ```
/// use corun_exec::teams::{Operation, Scheduler, TeamOptions, operation};
///
/// # if cfg!(any(miri, not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))) { return Ok(()); }
/// let mut scheduler = Scheduler::new(TeamOptions::default())?;
/// let sums = scheduler.scope(|scope| {
///     for client in 0..3 {
///         scope.spawn(format!("client {client}"), move || {
///             operation(Operation(0)); // fetch: those who do the same run as a team
///             corun_exec::ctx!();
///             client + 1
///         });
///     }
/// });
/// let sums: Vec<i32> = sums.into_iter().map(|sum| sum.unwrap()).collect();
/// assert_eq!(sums, [1, 2, 3]);
/// # Ok::<(), corun_exec::teams::TeamError>(())
/// ```
pub struct Scheduler(Control);

/// Settings and statistics of a scheduler, from its thread.
#[derive(Clone)]
pub struct Control(Rc<Shared>);

/// What a host is asked for, see [`Scope::on_idle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Members are ready: do what is to be done now, and return.
    Poll,
    /// No member can run before it is woken, or before this time, if there is one. The host may wait so long for its own events; it
    /// returns when it is told to. Returning early is allowed.
    Wait(Option<Instant>),
}

/// Who waits in the scheduler's place.
pub(super) type Host<'scope> = Box<dyn FnMut(Idle) + 'scope>;

/// Who hears of members that are lost.
pub(super) type OnLost<'scope> = Box<dyn FnMut(usize, &Lost) + 'scope>;

/// Where members are spawned. They may use what outlives the scope, and the scope itself.
pub struct Scope<'scope, 'env: 'scope, R> {
    core: *mut Core,
    results: RefCell<Vec<Option<Result<R, Lost>>>>,
    /// As for [`std::thread::Scope`]: neither lifetime may be shortened.
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl Scheduler {
    /// A scheduler without members. Turns on the CTX points that prefetch, unless a profile has been loaded before.
    ///
    /// # Errors
    /// [`TeamError`].
    pub fn new(options: TeamOptions) -> Result<Scheduler, TeamError> {
        if !SUPPORTED {
            return Err(TeamError::Unsupported);
        }
        if options.team_size_max == 0 {
            return Err(TeamError::TeamSize);
        }
        if options.stack_bytes < STACK_BYTES_MIN {
            return Err(TeamError::StackBytes {
                bytes: options.stack_bytes,
            });
        }
        overflow::install().map_err(TeamError::Overflow)?;
        point::choose_once();
        Ok(Scheduler(Control(Rc::new(Shared(UnsafeCell::new(Core::new(
            options,
        )))))))
    }

    /// Runs the members that `setup` spawns, and those they spawn, until all have ended. Their results are in the order of
    /// spawning. Members begin to run when `setup` returns; if it panics they never do.
    pub fn scope<'env, R, F>(&mut self, setup: F) -> Vec<Result<R, Lost>>
    where
        F: for<'scope> FnOnce(&'scope Scope<'scope, 'env, R>),
        R: 'env,
    {
        let core = self.0.core();
        let scope = Scope {
            core,
            results: RefCell::new(Vec::new()),
            scope: PhantomData,
            env: PhantomData,
        };
        // A member of another scheduler may run this one.
        let before = local::with(|local| {
            // SAFETY: on the core's thread, no reference is alive.
            let (switches, float) = unsafe { ((*core).ctx_switches(), (*core).options.float) };
            let flags = if switches { 0 } else { CTX_OFF } | if float { FLOAT } else { 0 };
            (
                local.member.replace(std::ptr::null_mut()),
                local.gate.replace(flags),
                local.core.replace(core),
            )
        });
        // SAFETY: on the core's thread, no reference is alive.
        unsafe { (*core).set_inside(true) };
        let mut outcome = catch_unwind(AssertUnwindSafe(|| setup(&scope)));
        if outcome.is_ok() {
            // SAFETY: on the core's thread and this scope's root.
            outcome = unsafe { run(core) };
        } else {
            // SAFETY: as above; no member has begun.
            unsafe { dismiss(core) };
        }
        // All members have ended. Nothing of this scope stays with the core, whatever the user's destructors do below.
        // SAFETY: no reference is alive.
        let (on_lost, host, lost) = unsafe {
            (*core).set_inside(false);
            (*core).remote.set_wake(None);
            let host = (*core).set_host(None);
            ((*core).on_lost.take(), host, std::mem::take(&mut (*core).lost))
        };
        local::with(|local| {
            local.member.set(before.0);
            local.gate.set(before.1);
            local.core.set(before.2);
        });
        drop((on_lost, host));
        if let Err(payload) = outcome {
            resume_unwind(payload);
        }
        let mut results = scope.results.take();
        for (index, lost) in lost {
            results[index] = Some(Err(lost));
        }
        // Every member that ended left a result or a loss.
        results.into_iter().flatten().collect()
    }

    /// The scheduler's settings and statistics, also for its members.
    pub fn control(&self) -> Control {
        self.0.clone()
    }
}

impl std::ops::Deref for Scheduler {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.0
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for member in self.0.get_mut().idle.drain(..) {
            // SAFETY: it has ended: nothing runs on its stack.
            drop(unsafe { Member::take_down(member) });
        }
    }
}

/// Runs members until none is left. Returns the first panic of who hears of lost members.
///
/// # Safety
/// On the core's thread, on no member's stack of this core.
unsafe fn run(core: *mut Core) -> std::thread::Result<()> {
    let mut outcome = Ok(());
    // SAFETY: as the caller says; references end before switches.
    unsafe {
        while (*core).live > 0 {
            let root = &raw mut (*core).root;
            core::go(core, root, core::next(core));
            let member = std::mem::replace(&mut (*core).overflowed, std::ptr::null_mut());
            if member.is_null() {
                // Taken out meanwhile: it may wake members and spawn.
                if (*core).live > 0
                    && let Some((mut host, idle)) = (*core).take_host()
                {
                    // As below. One that panicked is not asked again.
                    let asked = catch_unwind(AssertUnwindSafe(|| host(idle)));
                    let kept = asked.is_ok();
                    outcome = outcome.and(asked);
                    drop(if kept { (*core).give_host(host) } else { Some(host) });
                }
            } else {
                // Whatever latches were held were its own: members do not switch in them.
                local::with(|local| local.gate.set(local.gate.get() & !local::LATCHES));
                let message = (*member).overflow_message();
                (*member).unpin();
                let lost = Lost::Overflowed { message };
                let index = (*member).index;
                core::end(core, member, None);
                // Others may have pointers to its stack: it stays, as if the member slept for ever.
                (*core).idle.pop();
                std::mem::forget(Member::take_down(member).into_stack());
                // Taken out meanwhile: it may spawn.
                if let Some(mut hear) = (*core).on_lost.take() {
                    // The other members use what the scope borrows, so a panic waits for them.
                    let heard = catch_unwind(AssertUnwindSafe(|| hear(index, &lost)));
                    outcome = outcome.and(heard);
                    if (*core).on_lost.is_none() {
                        (*core).on_lost = Some(hear);
                    }
                }
                (*core).lost.push((index, lost));
            }
        }
    }
    outcome
}

/// Lets go of members that have not begun.
///
/// # Safety
/// As for [`run`].
unsafe fn dismiss(core: *mut Core) {
    // SAFETY: as the caller says.
    unsafe {
        while let Some(member) = (*core).pop_ready() {
            let body = (*member).body.take();
            core::end(core, member, None);
            // The others must go too: they would run with the next scope. The panic that brought us here passes on.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(body))) {
                std::mem::forget(payload);
            }
        }
    }
}

impl<'scope, R> Scope<'scope, '_, R> {
    /// Adds a member. It begins as a stray; `name` is for messages.
    pub fn spawn(&'scope self, name: impl Into<String>, work: impl FnOnce() -> R + 'scope)
    where
        R: 'scope,
    {
        let index = {
            let mut results = self.results.borrow_mut();
            results.push(None);
            results.len() - 1
        };
        let body: Box<dyn FnOnce() + 'scope> = Box::new(move || {
            let result = work();
            self.results.borrow_mut()[index] = Some(Ok(result));
        });
        // SAFETY: the scope ends after all its members have: what the body borrows outlives it.
        let body: Body = unsafe { std::mem::transmute::<Box<dyn FnOnce() + 'scope>, Body>(body) };
        // SAFETY: a scope is on its core's thread; no reference to the core is alive.
        let spawned = unsafe { spawn(self.core, name.into(), index, body) };
        if let Err(error) = spawned {
            self.results.borrow_mut()[index] = Some(Err(Lost::Stack(error)));
        }
    }

    /// Has a function told at once when a member used up its stack: by its number in the order of spawning. It runs on the
    /// scheduler's own stack, where it may clean up behind the member and spawn another one. Its first panic is passed on when
    /// all members have ended.
    pub fn on_lost(&'scope self, hear: impl FnMut(usize, &Lost) + 'scope) {
        let hear: OnLost<'scope> = Box::new(hear);
        // SAFETY: taken out again before the scope ends.
        let hear: OnLost =
            unsafe { std::mem::transmute::<Box<dyn FnMut(usize, &Lost) + 'scope>, OnLost>(hear) };
        // SAFETY: on the core's thread; no reference is alive.
        let before = unsafe { (*self.core).on_lost.replace(hear) };
        // Code of the user, which may come here again.
        drop(before);
    }

    /// Has the host wait wherever the scheduler would put the OS thread to sleep, so that one thread serves members and, for
    /// instance, sockets; between teams it is asked now and then as well. `wait` runs on the scheduler's own stack, where it may wake
    /// members and spawn some; `wake` is called, from any thread, when another thread has woken a member: it makes `wait` return. Its
    /// first panic is passed on when all members have ended; until then the scheduler sleeps by itself.
    ///
    /// ```
    /// use corun_exec::teams::{self, Idle, Scheduler, TeamOptions, Token};
    /// use std::sync::mpsc;
    ///
    /// let Ok(mut scheduler) = Scheduler::new(TeamOptions::default()) else {
    ///     return; // no switch has been written for this machine
    /// };
    /// // Stands for a socket: the host's own events come through it, and so does what wakes it.
    /// let (events, arrived) = mpsc::channel::<Option<Token>>();
    /// let wake = events.clone();
    /// scheduler.scope(|scope| {
    ///     scope.on_idle(
    ///         move || wake.send(None).unwrap_or_default(),
    ///         move |idle| {
    ///             let event = match idle {
    ///                 Idle::Poll => arrived.try_recv().ok(),
    ///                 Idle::Wait(_) => arrived.recv().ok(),
    ///             };
    ///             if let Some(Some(member)) = event {
    ///                 member.unpark();
    ///             }
    ///         },
    ///     );
    ///     scope.spawn("client", || {
    ///         events.send(Token::current()).expect("the host listens");
    ///         teams::park(None);
    ///     });
    /// });
    /// ```
    pub fn on_idle(&'scope self, wake: impl Fn() + Send + Sync + 'static, wait: impl FnMut(Idle) + 'scope) {
        let host: Host<'scope> = Box::new(wait);
        // SAFETY: taken out again before the scope ends.
        let host: Host<'static> =
            unsafe { std::mem::transmute::<Box<dyn FnMut(Idle) + 'scope>, Host<'static>>(host) };
        // SAFETY: on the core's thread; no reference is alive.
        let before = unsafe {
            (*self.core).remote.set_wake(Some(Arc::new(wake)));
            (*self.core).set_host(Some(host))
        };
        // Code of the user, which may come here again.
        drop(before);
    }

    /// The scheduler's settings and statistics.
    pub fn control(&self) -> Control {
        // SAFETY: the scheduler is there while its scope is.
        unsafe { Control::of(self.core) }
    }
}

/// Makes a member, or reuses one, and makes it ready.
///
/// # Safety
/// On the core's thread; no reference to the core is alive.
unsafe fn spawn(core: *mut Core, name: String, index: usize, body: Body) -> std::io::Result<()> {
    // SAFETY: as the caller says; members live as long as the core.
    unsafe {
        let member = match (*core).idle.pop() {
            Some(member) => member,
            None => {
                let stack = Stack::new((*core).options.stack_bytes, (*core).made)?;
                let remote = (*core).remote.clone();
                let token = Token::new(std::ptr::null_mut(), core, remote);
                (*core).made += 1;
                Member::new(core, stack, token)
            }
        };
        // Tokens of the one who had it before go on pointing to nothing.
        (*member).token = Token::new(member, core, (*core).remote.clone());
        (*member).name = name;
        (*member).index = index;
        (*member).body = Some(body);
        Member::rewind(member, core::member_main);
        (*core).live += 1;
        (*core).push_new(member);
    }
    Ok(())
}

impl Control {
    /// Another control of a core.
    ///
    /// # Safety
    /// On the core's thread, and its scheduler is there.
    pub(super) unsafe fn of(core: *mut Core) -> Control {
        let shared: *const Shared = core.cast_const().cast();
        // SAFETY: a core is the only content of a `Shared`, at its address, behind an `Rc` that the scheduler holds.
        unsafe {
            Rc::increment_strong_count(shared);
            Control(Rc::from_raw(shared))
        }
    }

    fn core(&self) -> *mut Core {
        self.0.0.get()
    }

    /// How members run from now on. In serial mode a member goes on until it blocks, yields or ends, and CTX points do not switch.
    pub fn set_mode(&self, mode: TeamsMode) {
        // SAFETY: on the core's thread (a control cannot leave it); no reference is alive.
        unsafe { (*self.core()).mode = mode };
        self.apply();
    }

    /// Brings points and the thread's gate in line with the settings.
    fn apply(&self) {
        let core = self.core();
        // SAFETY: as above.
        let switches = unsafe {
            (*core).arm();
            (*core).ctx_switches()
        };
        local::with(|local| {
            if local.core.get() == core {
                let gate = local.gate.get() & !CTX_OFF;
                local.gate.set(if switches { gate } else { gate | CTX_OFF });
            }
        });
    }

    /// How members run.
    pub fn mode(&self) -> TeamsMode {
        // SAFETY: as above.
        unsafe { (*self.core()).mode }
    }

    /// Whether CTX points that are on switch, from now on.
    pub fn set_ctx(&self, on: bool) {
        // SAFETY: as above.
        unsafe { (*self.core()).options.ctx = on };
        self.apply();
    }

    /// Whether the running team stays together from now on: its members do not leave it when an operation ends, and go on with the next
    /// one. As the paper's microbenchmarks, which are about switches and not about how teams form (section 3.4).
    pub fn hold_team(&self, held: bool) {
        // SAFETY: as above.
        unsafe { (*self.core()).held = held };
    }

    /// Members of a team at most, from the next team on; at least 1.
    pub fn set_team_size_max(&self, members: usize) {
        // SAFETY: as above.
        unsafe { (*self.core()).options.team_size_max = members.max(1) };
    }

    /// Which operations share a list, from the next time a member joins one; see [`corun_model::teams::merge`]. An empty mapping
    /// separates all.
    pub fn merge(&self, mapping: Mapping) {
        // SAFETY: as above.
        unsafe { (*self.core()).mapping = mapping };
    }

    /// Which operations engines should split, see [`split`](super::split); see [`corun_model::teams::worth_splitting`].
    pub fn set_split(&self, operations: Vec<u16>) {
        // SAFETY: as above.
        unsafe { (*self.core()).split = operations };
    }

    /// Counts of every operation that had teams, by its number. Those of a team that runs are in it once its members leave it.
    pub fn statistics(&self) -> Vec<OperationStatistics> {
        // SAFETY: as above.
        unsafe { (*self.core()).lists.statistics() }
    }

    /// Members that were ready to run when a team was formed, those of the team included, on average.
    pub fn ready_average(&self) -> f64 {
        // SAFETY: as above.
        unsafe { (*self.core()).lists.ready_average() }
    }

    /// Begins statistics anew.
    pub fn reset_statistics(&self) {
        // SAFETY: as above.
        unsafe { (*self.core()).lists.reset_statistics() };
    }
}
