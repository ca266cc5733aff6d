//! CPU time of processes, to see that a side that does not run is idle, and of the machine, to see that nothing else runs.

use std::time::Duration;

/// Clock ticks a second in `/proc`: fixed by the kernel's interface to programs.
pub const TICKS_PER_SECOND: f64 = 100.0;

/// Ticks of CPU time a process has used, all its threads; `None` where it is gone or the kernel does not tell.
pub fn ticks(process: u32) -> Option<u64> {
    parse(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The same with all processes that it started: those that it has waited for, and those that live.
pub fn ticks_of_family(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let [own, waited_for] = times(&stat)?;
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?;
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    Some(own + waited_for + children.filter_map(ticks).sum::<u64>())
}

fn parse(stat: &str) -> Option<u64> {
    times(stat).map(|[own, _]| own)
}

/// Fields 14 to 17 of `stat`: a process's own ticks, and those of children that it has waited for. The second field is the program's name in
/// parentheses and may hold anything.
fn times(stat: &str) -> Option<[u64; 2]> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    let own = next()? + next()?;
    Some([own, next()? + next()?])
}

/// The share of the CPU time of all cores, 0 to 1, that was used in this time from now on; `None` where the kernel does not tell.
pub fn used_share(during: Duration) -> Option<f64> {
    let read = || machine(&std::fs::read_to_string("/proc/stat").ok()?);
    let before = read()?;
    std::thread::sleep(during);
    share(before, read()?)
}

/// Idle ticks and all ticks of all cores since the machine started.
fn machine(stat: &str) -> Option<(u64, u64)> {
    let times = stat.lines().next()?.strip_prefix("cpu ")?;
    let times: Vec<u64> = times
        .split_whitespace()
        .map(|time| time.parse().ok())
        .collect::<Option<_>>()?;
    // Those of guests, behind these, are in the first two.
    let times = times.get(..8)?;
    Some((times[3] + times[4], times.iter().sum()))
}

fn share(before: (u64, u64), after: (u64, u64)) -> Option<f64> {
    let (idle, all) = (after.0.checked_sub(before.0)?, after.1.checked_sub(before.1)?);
    (all > 0).then(|| all.saturating_sub(idle) as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_spaces_and_parentheses_do_not_move_the_fields() {
        let stat = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 111 222 13 14 15";
        assert_eq!(parse(stat), Some(333));
        assert_eq!(times(stat), Some([333, 27]));
        assert_eq!(parse("42 (cut"), None);
        assert_eq!(parse("42 (cut) S 1 2"), None);
    }

    #[test]
    fn what_is_not_idle_is_used() {
        let stat = |user: u64, idle: u64| format!("cpu  {user} 5 20 {idle} 10 1 2 3 99 0\ncpu0 1 2 3\n");
        let read = |user, idle| machine(&stat(user, idle)).expect("ticks");
        assert_eq!(read(100, 200), (210, 341));
        assert_eq!(share(read(100, 200), read(130, 270)), Some(0.3));
        assert_eq!(share(read(100, 200), read(100, 200)), None);
        assert_eq!(share(read(100, 200), read(100, 100)), None);
        for cut in ["", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8", "cpu a b c d e f g h"] {
            assert_eq!(machine(cut), None, "{cut}");
        }
        let used = used_share(Duration::from_millis(30)).unwrap_or(0.0);
        assert!((0.0..=1.0).contains(&used));
    }

    #[test]
    fn children_count_with_their_parent() {
        let process = std::process::id();
        let before = ticks_of_family(process).expect("Linux");
        let mut child = std::process::Command::new("sh");
        let busy = child.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]);
        assert!(busy.status().expect("sh runs").success());
        assert!(ticks_of_family(process) > Some(before));
    }

    #[test]
    fn this_process_has_a_time_that_never_falls() {
        let before = ticks(std::process::id()).expect("Linux");
        // A tick is ten milliseconds of CPU time, which on a busy machine may take long to get.
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while ticks(std::process::id()) == Some(before) && std::time::Instant::now() < end {}
        assert!(ticks(std::process::id()) > Some(before));
        assert_eq!(ticks(u32::MAX), None);
    }
}
