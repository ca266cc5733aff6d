//! CPU time of processes, to see that a side that does not run is idle.

/// Clock ticks a second in `/proc`: fixed by the kernel's interface to programs.
pub const TICKS_PER_SECOND: f64 = 100.0;

/// Ticks of CPU time a process has used, all its threads; `None` where it is gone or the kernel does not tell.
pub fn ticks(process: u32) -> Option<u64> {
    parse(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// Fields 14 and 15 of `stat`. The second field is the program's name in parentheses and may hold anything.
fn parse(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_spaces_and_parentheses_do_not_move_the_fields() {
        let stat = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 111 222 13 14 15";
        assert_eq!(parse(stat), Some(333));
        assert_eq!(parse("42 (cut"), None);
        assert_eq!(parse("42 (cut) S 1 2"), None);
    }

    #[test]
    fn this_process_has_a_time_that_never_falls() {
        let before = ticks(std::process::id()).expect("Linux");
        // A tick is ten milliseconds of CPU time, which on a busy machine may take long to get.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while ticks(std::process::id()) == Some(before) && std::time::Instant::now() < end {}
        assert!(ticks(std::process::id()) > Some(before));
        assert_eq!(ticks(u32::MAX), None);
    }
}
