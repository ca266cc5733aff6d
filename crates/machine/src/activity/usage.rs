//! Times and counts of a process or a CPU, and their differences.

/// Nanoseconds of a tick of `stat` files: the kernel gives them in hundredths of a second to all programs, whatever it counts
/// in itself.
pub(super) const TICK_NS: u64 = 10_000_000;

/// What a process used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time in its own code, nanoseconds, in steps of ten milliseconds.
    pub user_ns: u64,
    /// Time in the kernel, likewise.
    pub system_ns: u64,
    /// Time on a CPU, nanoseconds, exact; `None` where the kernel does not keep it.
    pub on_cpu_ns: Option<u64>,
    /// Time ready to run without a CPU, nanoseconds.
    pub run_delay_ns: Option<u64>,
    /// How often it was given a CPU.
    pub time_slices: Option<u64>,
    /// How often it gave up the CPU itself.
    pub voluntary_switches: u64,
    /// How often the CPU was taken from it.
    pub involuntary_switches: u64,
    /// Page faults without a read from disk.
    pub minor_faults: u64,
    /// Page faults with one.
    pub major_faults: u64,
}

/// Applies a function to each number of two usages.
fn zip(a: &Usage, b: &Usage, f: fn(u64, u64) -> u64) -> Usage {
    let known = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (None, None) => None,
        (a, b) => Some(f(a.unwrap_or(0), b.unwrap_or(0))),
    };
    Usage {
        user_ns: f(a.user_ns, b.user_ns),
        system_ns: f(a.system_ns, b.system_ns),
        on_cpu_ns: known(a.on_cpu_ns, b.on_cpu_ns),
        run_delay_ns: known(a.run_delay_ns, b.run_delay_ns),
        time_slices: known(a.time_slices, b.time_slices),
        voluntary_switches: f(a.voluntary_switches, b.voluntary_switches),
        involuntary_switches: f(a.involuntary_switches, b.involuntary_switches),
        minor_faults: f(a.minor_faults, b.minor_faults),
        major_faults: f(a.major_faults, b.major_faults),
    }
}

impl Usage {
    /// What was used since an earlier look. Counts never run backwards; where they seem to, it is 0.
    pub fn since(&self, earlier: &Self) -> Self {
        zip(self, earlier, u64::saturating_sub)
    }

    /// Adds another's.
    pub fn add(&mut self, other: &Self) {
        *self = zip(self, other, u64::saturating_add);
    }

    /// Time on a CPU: exact where the kernel keeps it, else the sum of user and system time.
    pub fn cpu_ns(&self) -> u64 {
        self.on_cpu_ns
            .unwrap_or_else(|| self.user_ns.saturating_add(self.system_ns))
    }
}

/// Times of one CPU since the machine started, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// The kernel's number of it.
    pub cpu: u32,
    /// Running anything: programs, the kernel, interrupts, guests.
    pub busy_ns: u64,
    /// Idle, waiting for disks included.
    pub idle_ns: u64,
    /// Ready to run, while the hypervisor ran somebody else.
    pub steal_ns: u64,
}

/// What one CPU did between two looks, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuActivity {
    /// The kernel's number of it.
    pub cpu: u32,
    /// Running anything.
    pub busy_ns: u64,
    /// Idle.
    pub idle_ns: u64,
    /// Taken by the hypervisor.
    pub steal_ns: u64,
}

impl CpuTimes {
    /// What it did since an earlier look.
    pub fn since(&self, earlier: &Self) -> CpuActivity {
        CpuActivity {
            cpu: self.cpu,
            busy_ns: self.busy_ns.saturating_sub(earlier.busy_ns),
            idle_ns: self.idle_ns.saturating_sub(earlier.idle_ns),
            steal_ns: self.steal_ns.saturating_sub(earlier.steal_ns),
        }
    }
}

impl CpuActivity {
    /// All of its time.
    pub fn all_ns(&self) -> u64 {
        self.busy_ns
            .saturating_add(self.idle_ns)
            .saturating_add(self.steal_ns)
    }

    /// Stolen time, in percent of all; `None` where none passed.
    pub fn steal_percent(&self) -> Option<f64> {
        let all = self.all_ns();
        (all > 0).then(|| 100.0 * self.steal_ns as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_keep_stays_unknown() {
        let ticks = Usage {
            user_ns: 3 * TICK_NS,
            system_ns: TICK_NS,
            ..Usage::default()
        };
        assert_eq!(ticks.since(&Usage::default()).on_cpu_ns, None);
        assert_eq!(ticks.cpu_ns(), 4 * TICK_NS);
        let exact = Usage {
            on_cpu_ns: Some(7),
            ..ticks
        };
        assert_eq!(exact.cpu_ns(), 7);
        let mut sum = ticks;
        sum.add(&exact);
        assert_eq!((sum.user_ns, sum.on_cpu_ns), (6 * TICK_NS, Some(7)));
        assert_eq!(ticks.since(&exact).on_cpu_ns, Some(0));
    }

    #[test]
    fn steal_is_a_part_of_all_time() {
        let first = CpuTimes {
            cpu: 3,
            busy_ns: 100,
            idle_ns: 100,
            steal_ns: 5,
        };
        let last = CpuTimes {
            cpu: 3,
            busy_ns: 160,
            idle_ns: 130,
            steal_ns: 15,
        };
        let activity = last.since(&first);
        assert_eq!((activity.all_ns(), activity.steal_percent()), (100, Some(10.0)));
        assert_eq!(CpuActivity::default().steal_percent(), None);
    }
}
