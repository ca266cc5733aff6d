//! Names of the system's users and groups.

use std::ffi::{CStr, CString};

/// Longest entry of these databases looked at, in bytes.
const ENTRY_BYTES_MAX: usize = 64 << 10;

/// The name of a user, as the system's user database has it; `None` when it has none, or one that is not UTF-8.
pub fn user_name(uid: u32) -> Option<String> {
    let mut buffer = vec![0u8; 1024];
    loop {
        // SAFETY: all zeroes is a `passwd`: numbers and null pointers.
        let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: entry and found are ours, the buffer is as long as is said, and all outlive the call.
        let code = unsafe {
            libc::getpwuid_r(
                uid,
                &raw mut entry,
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        if code == libc::ERANGE && buffer.len() < ENTRY_BYTES_MAX {
            buffer.resize(buffer.len() * 2, 0);
            continue;
        }
        if code != 0 || found.is_null() || entry.pw_name.is_null() {
            return None;
        }
        // SAFETY: the call succeeded, so that the name ends with a zero byte within the buffer, which is still there.
        let name = unsafe { CStr::from_ptr(entry.pw_name) };
        return name.to_str().ok().map(str::to_owned);
    }
}

/// The user this process acts as.
pub fn own_user_id() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

/// The number of a group, as the system's group database has it; `None` when there is no group of this name.
pub fn group_id(name: &str) -> Option<u32> {
    let name = CString::new(name).ok()?;
    let mut buffer = vec![0u8; 1024];
    loop {
        // SAFETY: all zeroes is a `group`: a number and null pointers.
        let mut entry: libc::group = unsafe { std::mem::zeroed() };
        let mut found = std::ptr::null_mut();
        // SAFETY: the name ends with a zero byte, entry and found are ours, the buffer is as long as is said, and all outlive the call.
        let code = unsafe {
            libc::getgrnam_r(
                name.as_ptr(),
                &raw mut entry,
                buffer.as_mut_ptr().cast(),
                buffer.len(),
                &raw mut found,
            )
        };
        if code == libc::ERANGE && buffer.len() < ENTRY_BYTES_MAX {
            buffer.resize(buffer.len() * 2, 0);
            continue;
        }
        return (code == 0 && !found.is_null()).then_some(entry.gr_gid);
    }
}

#[cfg(test)]
mod tests {
    use super::{group_id, user_name};

    #[test]
    fn root_is_root_and_nobody_has_the_last_number() {
        assert_eq!(user_name(0).as_deref(), Some("root"));
        assert_eq!(user_name(u32::MAX - 1), None);
    }

    #[test]
    fn groups_have_numbers() {
        assert_eq!(group_id("root"), Some(0));
        assert_eq!(group_id("no such group"), None);
        assert_eq!(group_id("ro\0ot"), None);
    }
}
