//! [`Core`]: the state of a scheduler, and who runs next. Paper 003, sections 4.1.1 and 4.1.3.
//!
//! Whoever gives the processor away decides on its own stack who goes on and switches there. The order:
//!
//! 1. the next member of the team that runs;
//! 2. once it has ended, every stray that was ready by then, once: it runs until it joins a list, blocks, yields or ends;
//! 3. the next team;
//! 4. if nobody can run, the OS thread sleeps until somebody is woken or the earliest deadline; or the host waits in its place
//!    ([`super::Scope::on_idle`]), and is asked now and then before 3, too.
//!
//! All functions take a raw pointer: a reference would be alive on several stacks at once. None runs code of a user while it
//! has a reference. What it is not: it knows nothing of what members do.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use corun_model::teams::{Mapping, TeamsMode};

use super::Lost;
use super::lists::Lists;
use super::local;
use super::member::{Alarm, Member, Place};
use super::ring::{Node, Ring};
use super::scheduler::{Host, Idle, OnLost, TeamOptions};
use super::switch::{switch, switch_float};
use super::token::Remote;

/// Stack that the functions here need: a member with less is ended before it comes in, not in the middle of a list.
const STACK_RESERVE: usize = 8 << 10;
/// Operations in serial mode after which a member gives the processor away, should it not do so by itself between transactions.
/// Unmeasured; about a millisecond.
const SERIAL_OPERATIONS: u32 = 4096;
/// Rounds in which strays ran and no team did, after which the OS may run another thread. Unmeasured.
const STRAY_ROUNDS: u32 = 16;
/// Longest time that members keep the host from its own work, but for one team. Unmeasured.
const HOST_EVERY: Duration = Duration::from_micros(200);

/// The state of a scheduler. Only its own OS thread touches it.
pub(super) struct Core {
    // Fixed.
    pub options: TeamOptions,
    pub remote: Arc<Remote>,
    /// Stands for the OS thread's own stack.
    pub root: Node,

    // Changing.
    pub mode: TeamsMode,
    /// Whether a scope runs.
    inside: bool,
    /// Whether it counts as one that needs the points.
    arms: bool,
    pub mapping: Mapping,
    /// Operations that are to be split.
    pub split: Vec<u16>,
    /// Members of the running team stay in it when an operation ends.
    pub held: bool,
    /// The team.
    running: Ring,
    pub lists: Lists,
    ready: VecDeque<*mut Member>,
    /// Strays still to run before the next team.
    strays_left: usize,
    round_began: bool,
    stray_rounds: u32,
    alarms: BTreeMap<Alarm, *mut Member>,
    parks: u64,
    /// Members that have not ended.
    pub live: usize,
    /// The member whose stack is used up.
    pub overflowed: *mut Member,
    pub lost: Vec<(usize, Lost)>,
    pub on_lost: Option<OnLost<'static>>,
    /// Who waits in the scheduler's place.
    host: Option<Host<'static>>,
    /// When it is to be asked next, even if members are ready.
    host_at: Instant,
    /// Nobody could run when the processor went to the root.
    pub rests: bool,
    /// Members without work, for reuse.
    pub idle: Vec<*mut Member>,
    pub made: usize,
}

impl Core {
    pub fn new(options: TeamOptions) -> Core {
        Core {
            options,
            remote: Arc::new(Remote::new()),
            root: Node::new(),
            mode: TeamsMode::Teams,
            inside: false,
            arms: false,
            mapping: Mapping::new(),
            split: Vec::new(),
            held: false,
            running: Ring::new(),
            lists: Lists::default(),
            ready: VecDeque::new(),
            strays_left: 0,
            round_began: false,
            stray_rounds: 0,
            alarms: BTreeMap::new(),
            parks: 0,
            live: 0,
            overflowed: std::ptr::null_mut(),
            lost: Vec::new(),
            on_lost: None,
            host: None,
            host_at: Instant::now(),
            rests: false,
            idle: Vec::new(),
            made: 0,
        }
    }

    /// Takes the member that ran out of its team, if it is in it. `finished`: it is at the end of its operation.
    ///
    /// # Safety
    /// The member exists and is this core's.
    pub unsafe fn leave(&mut self, member: *mut Member, finished: bool) {
        // SAFETY: as the caller says; a running member is in the running ring.
        unsafe {
            if (*member).place == Place::Running {
                self.running.remove(&raw mut (*member).node);
                let switches = std::mem::take(&mut (*member).node.switches);
                self.lists.left((*member).list, finished, switches);
            }
            (*member).place = Place::Stray;
        }
    }

    /// The list of an operation.
    fn list(&self, operation: u16) -> u16 {
        self.mapping
            .get(usize::from(operation))
            .copied()
            .unwrap_or(operation)
    }

    /// Whether the member that runs stays in its team for another operation of the same list.
    ///
    /// # Safety
    /// As for [`Core::leave`].
    unsafe fn goes_on(&self, member: *mut Member, operation: u16) -> bool {
        // SAFETY: as the caller says.
        unsafe {
            let goes_on = (*member).repeats < self.options.repeats_max
                && (*member).place == Place::Running
                && self.mode == TeamsMode::Teams
                && self.running.len() > 1
                && (*member).list == self.list(operation);
            (*member).repeats = if goes_on { (*member).repeats + 1 } else { 0 };
            goes_on
        }
    }

    /// Puts a member into the list of an operation.
    ///
    /// # Safety
    /// As for [`Lists::join`].
    unsafe fn join(&mut self, member: *mut Member, operation: u16) {
        let list = self.list(operation);
        // SAFETY: as the caller says.
        unsafe { self.lists.join(member, list) };
    }

    /// Makes the next team of a list. False if nobody waits.
    fn form_team(&mut self) -> bool {
        let size_max = match self.mode {
            TeamsMode::Teams => self.options.team_size_max,
            TeamsMode::Serial => 1,
        };
        let strays = self.ready.len();
        self.lists
            .form(self.options.next_team, size_max, strays, &mut self.running)
    }

    /// Makes ready who was woken from outside or whose time has come.
    fn collect(&mut self) {
        if self.remote.any() {
            let ready = &mut self.ready;
            self.remote.take(|member| ready.push_back(member));
        }
        if self.alarms.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(entry) = self.alarms.first_entry()
            && entry.key().0 <= now
        {
            let member = entry.remove();
            // SAFETY: a member with an alarm is parked, so it exists.
            if unsafe { (*member).token.park_expires() } {
                self.ready.push_back(member);
            }
        }
    }

    /// Who runs next; `None` if nobody can.
    fn pick(&mut self) -> Option<*mut Member> {
        loop {
            if !self.running.head().is_null() {
                return Some(self.running.head().cast());
            }
            if !self.round_began {
                self.round_began = true;
                self.collect();
                self.strays_left = self.ready.len();
            }
            if self.strays_left > 0 {
                self.strays_left -= 1;
                if let Some(member) = self.ready.pop_front() {
                    return Some(member);
                }
            }
            self.round_began = false;
            if self.form_team() {
                self.stray_rounds = 0;
                continue;
            }
            self.collect();
            if self.ready.is_empty() {
                return None;
            }
            // Strays that only yield may wait for another OS thread.
            self.stray_rounds += 1;
            if self.stray_rounds.is_multiple_of(STRAY_ROUNDS) {
                std::thread::yield_now();
            }
        }
    }

    /// A member that was ready.
    pub fn pop_ready(&mut self) -> Option<*mut Member> {
        self.ready.pop_front()
    }

    /// Makes a new member ready. There is room for all then, so that waking one needs no memory.
    pub fn push_new(&mut self, member: *mut Member) {
        self.ready
            .reserve(self.made.saturating_sub(self.ready.len()).max(1));
        self.ready.push_back(member);
    }

    /// Whether CTX points switch.
    pub fn ctx_switches(&self) -> bool {
        self.options.ctx && self.mode == TeamsMode::Teams
    }

    /// A scope begins or ends.
    pub fn set_inside(&mut self, inside: bool) {
        self.inside = inside;
        self.arm();
    }

    /// Arms points if members may switch at them now; to be called when that may have changed.
    pub fn arm(&mut self) {
        let arms = self.inside && self.ctx_switches();
        if arms != self.arms {
            self.arms = arms;
            super::point::arm(arms);
        }
    }

    /// Has a host from now on, or none. Returns the one there was: dropping it is code of the user.
    pub fn set_host(&mut self, host: Option<Host<'static>>) -> Option<Host<'static>> {
        self.host_at = Instant::now();
        self.rests = false;
        std::mem::replace(&mut self.host, host)
    }

    /// Whether the host comes before the next team.
    fn host_is_due(&self) -> bool {
        self.host.is_some() && self.running.head().is_null() && self.host_at <= Instant::now()
    }

    /// The host, and what it is asked for.
    pub fn take_host(&mut self) -> Option<(Host<'static>, Idle)> {
        let host = self.host.take()?;
        let idle = match std::mem::take(&mut self.rests) {
            true => Idle::Wait(self.alarms.first_key_value().map(|((deadline, _), _)| *deadline)),
            false => Idle::Poll,
        };
        Some((host, idle))
    }

    /// Gives the host back, unless there is another one by now.
    pub fn give_host(&mut self, host: Host<'static>) -> Option<Host<'static>> {
        self.host_at = Instant::now() + HOST_EVERY;
        if self.host.is_some() {
            return Some(host);
        }
        self.host = Some(host);
        None
    }

    /// Sleeps until somebody may have been woken.
    fn sleep(&self) {
        match self.alarms.first_key_value() {
            None => std::thread::park(),
            Some(((deadline, _), _)) => {
                std::thread::park_timeout(deadline.saturating_duration_since(Instant::now()));
            }
        }
    }
}

/// Makes a member ready.
///
/// # Safety
/// On the core's thread; no reference to the core is alive. The member is a stray, not ready yet.
pub(super) unsafe fn ready(core: *mut Core, member: *mut Member) {
    // SAFETY: as the caller says.
    unsafe { (*core).ready.push_back(member) };
}

/// Where the processor goes: a member, or the OS thread's own stack once all have ended, or where it is the host's turn.
///
/// # Safety
/// On the core's thread; no reference to the core is alive.
pub(super) unsafe fn next(core: *mut Core) -> *mut Node {
    // SAFETY: as the caller says; each reference ends with its statement.
    unsafe {
        loop {
            if (*core).host_is_due() {
                return &raw mut (*core).root;
            }
            if let Some(member) = (*core).pick() {
                return member.cast();
            }
            (*core).rests = (*core).host.is_some();
            if (*core).live == 0 || (*core).rests {
                return &raw mut (*core).root;
            }
            (*core).sleep();
        }
    }
}

/// Switches from the member or root that runs to another.
///
/// # Safety
/// The caller runs on the stack of `from`; both belong to `core`; `to` is not running.
pub(super) unsafe fn go(core: *mut Core, from: *mut Node, to: *mut Node) {
    if from == to {
        return;
    }
    local::with(|local| {
        // SAFETY: as the caller says.
        unsafe {
            let member = if to == &raw mut (*core).root {
                std::ptr::null_mut()
            } else {
                to
            };
            if local.gate.get() & local::FLOAT == 0 {
                switch(from, to, &local.member, member);
            } else {
                switch_float(from, to, &local.member, member);
            }
        }
    });
}

/// Whether the running member may give the processor away: not in a latch, and not while it unwinds.
pub(super) fn may_switch() -> bool {
    local::with(|local| local.gate.get() & local::LATCHES == 0) && !super::unwinding()
}

/// Ends the member here if too little of its stack is left to go on: nothing of the lists is half done then.
///
/// # Safety
/// As for [`need`].
unsafe fn enter(member: *mut Member) -> *mut Core {
    // SAFETY: as the caller says.
    unsafe { need(member, STACK_RESERVE) }
}

/// Ends the member here if less than `bytes` of its stack are left.
///
/// # Safety
/// `member` runs, on its own stack, and may switch.
pub(super) unsafe fn need(member: *mut Member, bytes: usize) -> *mut Core {
    // SAFETY: the running member and its core exist.
    unsafe {
        let core = (*member).core;
        if super::stack_pointer().saturating_sub((*member).stack.limit()) < bytes {
            (*core).overflowed = member;
            go(core, member.cast(), &raw mut (*core).root);
        }
        core
    }
}

/// The thin wrapper between two operations.
///
/// # Safety
/// `member` runs, on its own stack, and may switch.
pub(super) unsafe fn operation(member: *mut Member, operation: u16) {
    // SAFETY: the running member and its core exist; references end before the switch.
    unsafe {
        let core = enter(member);
        if ((*core).held && (*member).place == Place::Running) || (*core).goes_on(member, operation) {
            return;
        }
        (*core).leave(member, true);
        if (*core).mode == TeamsMode::Serial {
            (*member).serial_operations += 1;
            if (*member).serial_operations < SERIAL_OPERATIONS {
                return;
            }
            (*member).serial_operations = 0;
            (*core).ready.push_back(member);
        } else {
            (*core).join(member, operation);
        }
        go(core, member.cast(), next(core));
    }
}

/// Goes astray and to the end of those that are ready.
///
/// # Safety
/// As for [`operation`].
pub(super) unsafe fn yield_now(member: *mut Member) {
    // SAFETY: as in `operation`.
    unsafe {
        let core = enter(member);
        (*core).leave(member, false);
        (*member).serial_operations = 0;
        (*core).ready.push_back(member);
        go(core, member.cast(), next(core));
    }
}

/// Goes astray until the member's token is notified or the deadline has passed.
///
/// # Safety
/// As for [`operation`].
pub(super) unsafe fn park(member: *mut Member, deadline: Option<Instant>) {
    // SAFETY: as in `operation`.
    unsafe {
        let core = enter(member);
        if !(*member).token.park_begins() {
            return;
        }
        (*core).leave(member, false);
        if let Some(deadline) = deadline {
            (*core).parks += 1;
            let alarm = (deadline, (*core).parks);
            (*core).alarms.insert(alarm, member);
            (*member).alarm = Some(alarm);
        }
        go(core, member.cast(), next(core));
        if let Some(alarm) = (*member).alarm.take() {
            (*core).alarms.remove(&alarm);
        }
        (*member).token.park_ends();
    }
}

/// Where a member begins.
pub(super) extern "C" fn member_main() -> ! {
    let member: *mut Member = local::with(|local| local.member.get()).cast();
    // SAFETY: the running member and its core exist; `run` leaves nothing on this stack.
    unsafe {
        let core = (*member).core;
        let payload = run(member);
        // A latch that it did not count off was its own.
        local::with(|local| local.gate.set(local.gate.get() & !local::LATCHES));
        end(core, member, payload.map(Lost::Panicked));
        go(core, member.cast(), next(core));
    }
    // A member that has ended is never switched to before it is rewound.
    std::process::abort()
}

/// Does the member's work. Returns what it panicked with.
///
/// # Safety
/// As for [`member_main`].
unsafe fn run(member: *mut Member) -> Option<Box<dyn Any + Send>> {
    // SAFETY: the running member exists.
    let body = unsafe { (*member).body.take() }?;
    catch_unwind(AssertUnwindSafe(body)).err()
}

/// Takes a member that has ended out.
///
/// # Safety
/// As for [`ready`]; nothing on the member's stack is used any more, but the frame that calls this and switches away for good.
pub(super) unsafe fn end(core: *mut Core, member: *mut Member, lost: Option<Lost>) {
    // SAFETY: as the caller says.
    unsafe {
        (*core).leave(member, true);
        (*core).live -= 1;
        if let Some(lost) = lost {
            (*core).lost.push(((*member).index, lost));
        }
        (*core).idle.push(member);
    }
}
