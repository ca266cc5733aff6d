//! The nice value of the calling thread: how much it lets others run first.
//!
//! On Linux it is each thread's own, and a thread that is started inherits it. Everybody may raise it up to 19; lowering it takes privileges.
//! Elsewhere both functions are errors of the kind [`io::ErrorKind::Unsupported`].

use std::io;

/// That of the calling thread.
///
/// # Errors
/// Where the system does not tell.
#[cfg(target_os = "linux")]
pub fn current() -> io::Result<i32> {
    /// Of the fields behind the name, which may have blanks in it.
    const NICE: usize = 16;
    let text = std::fs::read_to_string("/proc/thread-self/stat")?;
    let fields = text.rsplit_once(')').map_or("", |(_, behind)| behind);
    let nice = fields
        .split_whitespace()
        .nth(NICE)
        .and_then(|field| field.parse().ok());
    nice.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Sets that of the calling thread, which ends at 19.
///
/// # Errors
/// A lower one than it has, without the privilege.
#[cfg(target_os = "linux")]
pub fn set(nice: i32) -> io::Result<()> {
    const THIS_THREAD: libc::id_t = 0;
    // SAFETY: no memory is handed over.
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, THIS_THREAD, nice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// That of the calling thread.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn current() -> io::Result<i32> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sets that of the calling thread.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn set(_nice: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_threads_own_and_inherited() {
        let before = current().unwrap();
        let raised = (before + 3).min(19);
        let of_another = std::thread::spawn(move || {
            set(raised).unwrap();
            let child = std::thread::spawn(|| current().unwrap());
            (current().unwrap(), child.join().unwrap())
        });
        assert_eq!(of_another.join().unwrap(), (raised, raised));
        assert_eq!(current().unwrap(), before);
        // More than there is is the most.
        let most = std::thread::spawn(|| {
            set(1000).unwrap();
            current().unwrap()
        });
        assert_eq!(most.join().unwrap(), 19);
    }
}
