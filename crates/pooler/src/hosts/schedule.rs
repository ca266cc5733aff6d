//! When each host is probed next.
//!
//! One probe of a host is under way at a time. Its answer, or its timeout, sets when the next one is due; a
//! broken connection makes it due at once. Times are spread by the random number handed in, so that many proxies do not
//! probe a server in step.

use std::time::Duration;

use super::probe::Level;

/// A probe to run: send [`Order::sql`] to the host, then hand the row or the error to `Hosts::probed` with this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The host, a number in the list of hosts from 0.
    pub host: usize,
    /// When it was given: the SQL is sent after this.
    pub sent: Duration,
    /// How much is asked.
    pub level: Level,
    ticket: u64,
}

impl Order {
    /// The statement to send, alone, by the simple protocol.
    pub fn sql(&self) -> &'static str {
        self.level.sql()
    }
}

/// How often hosts are probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From one probe's answer to the next probe.
    pub interval: Duration,
    /// A probe that takes longer failed.
    pub timeout: Duration,
}

impl Default for Pace {
    /// Unmeasured: a failover is noticed within about three seconds.
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(2),
        }
    }
}

/// While there is no primary, hosts are probed this many times as often.
const HURRY: u32 = 4;
/// Probes out of turn are at least an interval divided by this apart.
const GAP: u32 = 10;

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    due: Duration,
    sent: Option<Order>,
    last_sent: Option<Duration>,
    level: Level,
}

/// The schedule of the hosts of one database.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) pace: Pace,
    slots: Vec<Slot>,
    tickets: u64,
}

impl Schedule {
    /// Every host is due now.
    pub(super) fn new(hosts: usize, pace: Pace, now: Duration) -> Self {
        let slot = Slot {
            due: now,
            ..Slot::default()
        };
        Self {
            pace,
            slots: vec![slot; hosts],
            tickets: 0,
        }
    }

    /// The host that has been due the longest, if one is.
    pub(super) fn next(&mut self, now: Duration) -> Option<Order> {
        let due = |slot: &Slot| slot.sent.is_none() && slot.due <= now;
        let (host, slot) = self
            .slots
            .iter_mut()
            .enumerate()
            .filter(|(_, slot)| due(slot))
            .min_by_key(|(host, slot)| (slot.due, *host))?;
        self.tickets += 1;
        let order = Order {
            host,
            sent: now,
            level: slot.level,
            ticket: self.tickets,
        };
        slot.sent = Some(order);
        slot.last_sent = Some(now);
        Some(order)
    }

    /// When [`Schedule::next`] or [`Schedule::overdue`] may have something; `None` without hosts.
    pub(super) fn wake_at(&self) -> Option<Duration> {
        self.slots
            .iter()
            .map(|slot| match slot.sent {
                Some(order) => order.sent.saturating_add(self.pace.timeout),
                None => slot.due,
            })
            .min()
    }

    /// A probe that was not answered within the timeout.
    pub(super) fn overdue(&self, now: Duration) -> Option<Order> {
        let late = |order: &Order| now >= order.sent.saturating_add(self.pace.timeout);
        self.slots.iter().filter_map(|slot| slot.sent).find(late)
    }

    /// Takes that `order` is over; false if it was over before, and its answer comes too late to count.
    pub(super) fn finish(&mut self, order: &Order, hurry: bool, now: Duration, random: u64) -> bool {
        let pace = self.pace;
        let Some(slot) = self.slots.get_mut(order.host) else {
            return false;
        };
        if slot.sent.is_none_or(|sent| sent.ticket != order.ticket) {
            return false;
        }
        slot.sent = None;
        let interval = if hurry {
            pace.interval / HURRY
        } else {
            pace.interval
        };
        // Between 7/8 and 9/8 of the interval.
        let spread = interval / 4;
        let extra = u64::try_from(spread.as_nanos()).map_or(0, |nanos| random % (nanos + 1));
        slot.due = now
            .saturating_add(interval - interval / 8)
            .saturating_add(Duration::from_nanos(extra));
        true
    }

    /// Asks less of a host from now on, at once.
    pub(super) fn lower(&mut self, host: usize, level: Level, now: Duration) {
        if let Some(slot) = self.slots.get_mut(host) {
            slot.level = level;
            slot.due = now;
        }
    }

    /// Something happened to the host: its next probe is due now, or a gap after the last one.
    pub(super) fn hasten(&mut self, host: usize, now: Duration) {
        let gap = self.pace.interval / GAP;
        if let Some(slot) = self.slots.get_mut(host) {
            let soon = slot
                .last_sent
                .map_or(now, |sent| now.max(sent.saturating_add(gap)));
            slot.due = slot.due.min(soon);
        }
    }

    /// The same for every host: the primary was lost.
    pub(super) fn hasten_all(&mut self, now: Duration) {
        for host in 0..self.slots.len() {
            self.hasten(host, now);
        }
    }
}
