//! The few things a client does with files, so that a kernel in memory can stand in for the real one.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Files as the kernel's trees and the journal need them.
pub trait Files {
    /// A held lock; dropping it, or the end of the process, releases it.
    type Lock;

    /// The whole text of a file.
    ///
    /// # Errors
    /// As the system answers.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Writes to an existing file of the kernel's with a single system call: the kernel takes each as one command.
    ///
    /// # Errors
    /// As the system answers.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;

    /// Whether [`Files::write`] would be let in: fails as opening the file for it does, and changes nothing.
    ///
    /// # Errors
    /// As the system answers.
    fn check_writable(&self, path: &Path) -> io::Result<()>;

    /// Names of the folders in a folder.
    ///
    /// # Errors
    /// As the system answers.
    fn folders(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Makes a folder.
    ///
    /// # Errors
    /// As the system answers.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// Removes a folder; the kernel's groups go with all that is in them.
    ///
    /// # Errors
    /// As the system answers.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;

    /// Replaces an ordinary file, or makes it with the folders above: afterwards, even after a crash, it has either its
    /// old text or the new one, and in the end the new one is on disk.
    ///
    /// # Errors
    /// As the system answers.
    fn replace(&self, path: &Path, text: &str) -> io::Result<()>;

    /// Removes an ordinary file, and what a crashed [`Files::replace`] of it left. No file is fine.
    ///
    /// # Errors
    /// As the system answers.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Takes the advisory lock on a folder, alone or together with others; `None` if somebody else is in the way.
    ///
    /// # Errors
    /// As the system answers.
    fn try_lock(&self, folder: &Path, exclusive: bool) -> io::Result<Option<Self::Lock>>;
}

/// The files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFiles;

/// Where the new text of a file lies until it takes the file's place.
pub(super) fn unfinished(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

impl Files for SystemFiles {
    type Lock = File;

    fn read(&self, path: &Path) -> io::Result<String> {
        // Names of processes may be any bytes.
        Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let written = OpenOptions::new()
            .write(true)
            .open(path)?
            .write(text.as_bytes())?;
        if written == text.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }

    fn check_writable(&self, path: &Path) -> io::Result<()> {
        OpenOptions::new().write(true).open(path).map(drop)
    }

    fn folders(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            // Entries of `/proc` may vanish while they are listed.
            if entry.file_type().is_ok_and(|kind| kind.is_dir())
                && let Ok(name) = entry.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        let unfinished = unfinished(path);
        let mut file = File::create(&unfinished)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        File::open(folder)?.sync_all()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        for file in [unfinished(path), path.to_owned()] {
            match fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn try_lock(&self, folder: &Path, exclusive: bool) -> io::Result<Option<File>> {
        let file = File::open(folder)?;
        let locked = if exclusive {
            file.try_lock()
        } else {
            file.try_lock_shared()
        };
        match locked {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_as_a_whole_and_removed_with_leftovers() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let path = folder.path().join("run/corun/journal");
        SystemFiles.remove(&path).expect("nothing to remove is fine");
        SystemFiles.replace(&path, "one").expect("made");
        SystemFiles.replace(&path, "two").expect("replaced");
        assert_eq!(SystemFiles.read(&path).expect("there"), "two");
        fs::write(unfinished(&path), "thr").expect("a leftover");
        SystemFiles.remove(&path).expect("removed");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn writes_make_no_files_and_folders_are_listed_alone() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = folder.path().join("tasks");
        let error = SystemFiles.write(&file, "1\n").expect_err("no such file");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
        assert!(SystemFiles.check_writable(&file).is_err() && !file.exists());
        fs::write(&file, "0\n").unwrap();
        SystemFiles.check_writable(&file).expect("it is ours");
        assert_eq!(SystemFiles.read(&file).unwrap(), "0\n");
        SystemFiles.write(&file, "1\n").expect("written");
        assert_eq!(SystemFiles.read(&file).unwrap(), "1\n");
        SystemFiles.make_folder(&folder.path().join("b")).unwrap();
        SystemFiles.make_folder(&folder.path().join("a")).unwrap();
        assert_eq!(SystemFiles.folders(folder.path()).unwrap(), ["a", "b"]);
        SystemFiles.remove_folder(&folder.path().join("a")).unwrap();
        assert_eq!(SystemFiles.folders(folder.path()).unwrap(), ["b"]);
    }

    #[test]
    fn locks_keep_others_out_until_dropped() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let lock = |exclusive| SystemFiles.try_lock(folder.path(), exclusive).expect("a folder");
        let reader = lock(false).expect("free");
        assert!(lock(false).is_some() && lock(true).is_none());
        drop(reader);
        let writer = lock(true).expect("free again");
        assert!(lock(false).is_none());
        drop(writer);
        assert!(lock(false).is_some());
    }
}
