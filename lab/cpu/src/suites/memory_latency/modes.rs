//! Which modes each figure compares.

use corun_model::operators::mode::{Hiding, Mode, Schedule, Staging, Threads, WorkAhead};

use crate::memory_latency::contest::Standing;
use crate::memory_latency::interference::HELPERS;

/// Plain code on these threads.
pub const fn plain(threads: Threads) -> Mode {
    Mode {
        threads,
        staging: Staging::Plain,
        hiding: Hiding::None,
    }
}

/// Staged code on these threads with prefetch instructions.
pub const fn prefetched(threads: Threads, schedule: Schedule, distance: u16) -> Mode {
    Mode::staged(threads, Hiding::Prefetch { schedule, distance })
}

/// Two threads that share one input.
pub const BI: Threads = Threads::BiThreaded(2);

/// What the paper settles on: 128 lines, backward, waiting (section 6.1).
pub const WORK_AHEAD: Mode = Mode::staged(Threads::One, Hiding::WorkAhead(WorkAhead::PAPER));

/// The prefetch schedules that are compared on one thread.
pub const SCHEDULES: [Mode; 8] = [
    prefetched(Threads::One, Schedule::Group, 8),
    prefetched(Threads::One, Schedule::Group, 16),
    prefetched(Threads::One, Schedule::Group, 32),
    prefetched(Threads::One, Schedule::Group, 64),
    prefetched(Threads::One, Schedule::Pipeline, 8),
    prefetched(Threads::One, Schedule::Amac, 8),
    prefetched(Threads::One, Schedule::Amac, 16),
    prefetched(Threads::One, Schedule::Amac, 32),
];

/// Two threads and prefetching.
pub const BI_PREFETCHED: [Mode; 3] = [
    prefetched(BI, Schedule::Group, 16),
    prefetched(BI, Schedule::Group, 32),
    prefetched(BI, Schedule::Amac, 16),
];

/// The techniques of figures 6, 7 and 9, serial first.
pub const TECHNIQUES: [Mode; 7] = [
    Mode::PLAIN,
    plain(Threads::TwoIndependent),
    Mode::staged(Threads::One, Hiding::None),
    Mode::staged(Threads::TwoIndependent, Hiding::None),
    plain(BI),
    Mode::staged(BI, Hiding::None),
    WORK_AHEAD,
];

/// More than two threads: the paper's negative control (section 3).
pub const CROWDED: [Mode; 2] = [plain(Threads::BiThreaded(3)), plain(Threads::BiThreaded(4))];

/// Everything figure 6 compares, serial first.
pub fn throughput() -> Vec<Mode> {
    let mut modes = TECHNIQUES.to_vec();
    modes.extend(CROWDED);
    modes.extend(SCHEDULES);
    modes.extend(BI_PREFETCHED);
    modes
}

/// Sizes of work-ahead sets, in lines.
pub fn sizes(quick: bool, full: bool) -> Vec<u32> {
    match (quick, full) {
        (true, _) => vec![16, 128, 1024],
        (_, true) => (4..=14).map(|bits| 1 << bits).collect(),
        _ => vec![16, 64, 128, 1024, 16_384],
    }
}

/// Serial, then each size with each of the four helpers, then the best prefetch schedules for reference.
pub fn by_size(sizes: &[u32]) -> Vec<Mode> {
    let mut modes = vec![Mode::PLAIN];
    for (direction, spin) in HELPERS {
        modes.extend(sizes.iter().map(|&lines| {
            Mode::staged(
                Threads::One,
                Hiding::WorkAhead(WorkAhead {
                    lines,
                    direction,
                    spin,
                }),
            )
        }));
    }
    modes.extend(REFERENCE);
    modes
}

/// [`by_size_alone`], then the reference.
pub fn by_size_backward(sizes: &[u32]) -> Vec<Mode> {
    let mut modes = by_size_alone(sizes);
    modes.extend(REFERENCE);
    modes
}

/// Serial, then each size with the helper the paper settles on.
pub fn by_size_alone(sizes: &[u32]) -> Vec<Mode> {
    let mut modes = vec![Mode::PLAIN];
    modes.extend(sizes.iter().map(|&lines| {
        let set = WorkAhead {
            lines,
            ..WorkAhead::PAPER
        };
        Mode::staged(Threads::One, Hiding::WorkAhead(set))
    }));
    modes
}

/// Prefetching on one and two threads, so that autos have something to be compared with in figures about sets.
const REFERENCE: [Mode; 4] = [
    prefetched(Threads::One, Schedule::Group, 32),
    prefetched(Threads::One, Schedule::Amac, 16),
    prefetched(BI, Schedule::Group, 32),
    prefetched(BI, Schedule::Amac, 16),
];

/// What a mode competes for.
pub fn standing(mode: Mode) -> Standing {
    let helpers = match mode.hiding {
        Hiding::WorkAhead(_) => mode.workers(),
        Hiding::None | Hiding::Prefetch { .. } => 0,
    };
    match mode.threads {
        Threads::TwoIndependent => Standing::Aside,
        Threads::One | Threads::BiThreaded(_) => Standing::Fixed {
            threads: mode.workers() + helpers,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_exists_once_and_serial_comes_first() {
        let sizes = sizes(false, false);
        for modes in [throughput(), by_size(&sizes), by_size_backward(&sizes)] {
            assert_eq!(modes[0], Mode::PLAIN);
            for (at, mode) in modes.iter().enumerate() {
                assert_eq!(mode.check(), Ok(()), "{mode}");
                assert!(!modes[..at].contains(mode), "{mode} comes twice");
            }
        }
    }

    #[test]
    fn a_helper_is_a_thread_and_other_work_is_no_choice() {
        assert_eq!(standing(WORK_AHEAD), Standing::Fixed { threads: 2 });
        assert_eq!(standing(CROWDED[1]), Standing::Fixed { threads: 4 });
        assert_eq!(standing(plain(Threads::TwoIndependent)), Standing::Aside);
    }

    #[test]
    fn sizes_are_the_papers_range() {
        let full = sizes(false, true);
        assert_eq!(
            (full.first(), full.last(), full.len()),
            (Some(&16), Some(&16_384), 11)
        );
    }
}
