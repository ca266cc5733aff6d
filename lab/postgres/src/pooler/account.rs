//! [`Account`]: who the servers run as. PostgreSQL and PgBouncer refuse to run as root, so as root they get an account of their own.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use super::failed;
use lab_core::error::BenchError;

/// The account Debian's package makes.
const NAME: &str = "postgres";

/// An account that servers run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its number.
    pub user: u32,
    /// The number of its group.
    pub group: u32,
}

impl Account {
    /// The account for servers; `None` where they may run as whoever runs this.
    ///
    /// # Errors
    /// When this is root and there is no account `postgres`.
    pub fn for_servers() -> Result<Option<Account>, BenchError> {
        let process = std::fs::metadata("/proc/self")
            .map_err(|source| BenchError::io("could not look at /proc/self", source))?;
        if process.uid() != 0 {
            return Ok(None);
        }
        let accounts = std::fs::read_to_string("/etc/passwd")
            .map_err(|source| BenchError::io("could not read /etc/passwd", source))?;
        let found = find(&accounts, NAME);
        found.map(Some).ok_or_else(|| {
            failed(
                NAME,
                format!("PostgreSQL does not run as root, and there is no account \"{NAME}\" to run it as"),
            )
        })
    }

    /// Hands it a folder or file.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn own(self, path: &Path) -> Result<(), BenchError> {
        chown(path, Some(self.user), Some(self.group))
            .map_err(|source| BenchError::io(format!("could not give away {}", path.display()), source))
    }
}

/// Lets every account pass through a folder to what it may see in it.
///
/// # Errors
/// When the system refuses.
pub fn passable(folder: &Path) -> Result<(), BenchError> {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o711))
        .map_err(|source| BenchError::io(format!("could not open {} to others", folder.display()), source))
}

/// The account of this name in the text of `/etc/passwd`.
fn find(accounts: &str, name: &str) -> Option<Account> {
    accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        Some(Account {
            user: fields.nth(1)?.parse().ok()?,
            group: fields.next()?.parse().ok()?,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_their_whole_name() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\npostgres2:x:7:8::/:/bin/sh\npostgres:x:101:104:,,,:/var/lib:/bin/bash\n";
        assert_eq!(
            find(accounts, "postgres"),
            Some(Account {
                user: 101,
                group: 104
            })
        );
        assert_eq!(find(accounts, "postgre"), None);
        assert_eq!(find("postgres:x:none:1", "postgres"), None);
    }
}
