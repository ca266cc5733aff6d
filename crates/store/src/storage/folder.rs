//! [`Folder`]: a real directory.
//!
//! Order of calls: [`Folder::open`], [`Storage::lock`], then anything. Files are written through the page cache and made
//! durable with `fdatasync`. What it is not: a shield against other programs that write into the directory.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Storage, StorageFile};

/// The file whose lock says that the folder has an owner. Its content is for people only.
const LOCK: &str = "corun.lock";
/// How long the lock is asked for. A process that another thread is just starting holds every open file of this one until it runs its
/// own program, so that a store which was closed a moment ago may still seem open. Unmeasured.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
/// Between two tries.
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// A directory of the file system.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// The directory `path`, made if it is missing. Its parent must exist.
    ///
    /// # Errors
    /// If the parent is missing, if `path` is no directory, or if it cannot be made. The message names the path.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Folder> {
        let path = path.as_ref();
        match fs::create_dir(path) {
            Ok(()) => sync_directory(
                path.parent()
                    .filter(|parent| !parent.as_os_str().is_empty())
                    .unwrap_or(Path::new(".")),
            )
            .map_err(|error| explain(error, "cannot sync the parent of the folder", path))?,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                if !path.is_dir() {
                    let what = format!(
                        "{} is not a directory; name a directory for the store",
                        path.display()
                    );
                    return Err(io::Error::new(ErrorKind::NotADirectory, what));
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let what = format!(
                    "cannot make the folder {}: its parent directory is missing; make that first",
                    path.display()
                );
                return Err(io::Error::new(ErrorKind::NotFound, what));
            }
            Err(error) => return Err(explain(error, "cannot make the folder", path)),
        }
        Ok(Folder {
            path: path.to_path_buf(),
        })
    }

    fn path_of(&self, name: &str) -> io::Result<PathBuf> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) || name == LOCK {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                format!("{name:?} is no name for a file of the store"),
            ));
        }
        Ok(self.path.join(name))
    }
}

/// The same error with what was tried and where.
fn explain(error: io::Error, what: &str, path: &Path) -> io::Error {
    let hint = match error.kind() {
        ErrorKind::PermissionDenied => "; check its permissions",
        ErrorKind::ReadOnlyFilesystem => "; the store needs a folder it can write to",
        _ => "",
    };
    io::Error::new(error.kind(), format!("{what} {}: {error}{hint}", path.display()))
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

impl Storage for Folder {
    fn create(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let path = self.path_of(name)?;
        match OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
        {
            Ok(file) => Ok(Arc::new(RealFile { file })),
            Err(error) => Err(explain(error, "cannot create", &path)),
        }
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn StorageFile>> {
        let path = self.path_of(name)?;
        // A folder that may only be read can still be looked at: writing to such a file fails later, and says so.
        let opened = match OpenOptions::new().read(true).write(true).open(&path) {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                File::open(&path)
            }
            opened => opened,
        };
        match opened {
            Ok(file) => Ok(Arc::new(RealFile { file })),
            Err(error) => Err(explain(error, "cannot open", &path)),
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let list = || -> io::Result<Vec<String>> {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.path)? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                // Directories are none of ours (`lost+found` at the root of a file system).
                if name != LOCK && !entry.file_type()?.is_dir() {
                    names.push(name);
                }
            }
            names.sort();
            Ok(names)
        };
        list().map_err(|error| explain(error, "cannot list the folder", &self.path))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path_of(name)?;
        fs::remove_file(&path).map_err(|error| explain(error, "cannot remove", &path))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.path_of(from)?, self.path_of(to)?);
        fs::rename(&from, &to).map_err(|error| explain(error, "cannot rename", &from))
    }

    fn sync_names(&self) -> io::Result<()> {
        sync_directory(&self.path).map_err(|error| explain(error, "cannot sync the folder", &self.path))
    }

    fn lock(&self) -> io::Result<Box<dyn Send + Sync>> {
        let path = self.path.join(LOCK);
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let mut file =
            opened.map_err(|error| explain(error, "cannot lock the folder: cannot open", &path))?;
        let until = Instant::now() + LOCK_PATIENCE;
        let locked = loop {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(LOCK_PAUSE),
                locked => break locked,
            }
        };
        match locked {
            Ok(()) => {
                // Who it is helps a person only, so that a full disk here is no error.
                let _ = file
                    .set_len(0)
                    .and_then(|()| writeln!(file, "{}", std::process::id()));
                Ok(Box::new(file))
            }
            Err(TryLockError::WouldBlock) => {
                let owner = fs::read_to_string(&path).unwrap_or_default();
                let owner = match owner.trim() {
                    "" => String::new(),
                    id => format!(" (process {id})"),
                };
                let what = format!(
                    "the folder {} is in use by another store{owner}; close that first",
                    self.path.display()
                );
                Err(io::Error::new(ErrorKind::WouldBlock, what))
            }
            Err(TryLockError::Error(error)) => Err(explain(error, "cannot lock", &path)),
        }
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// An open file.
struct RealFile {
    file: File,
}

impl StorageFile for RealFile {
    fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.length()?)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write_out(&self, offset: u64, length: u64) -> io::Result<()> {
        write_out(&self.file, offset, length)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(into, offset)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn reserve(&self, length: u64) -> io::Result<bool> {
        allocate(&self.file, length)
    }

    fn truncate(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }
}

/// Allocates the blocks of a file up to `length` without making it longer. Returns whether it could.
#[cfg(target_os = "linux")]
fn allocate(file: &File, length: u64) -> io::Result<bool> {
    use std::os::fd::AsRawFd;
    let length = libc::off_t::try_from(length).map_err(|_| ErrorKind::FileTooLarge)?;
    loop {
        // SAFETY: no memory is handed over, and the descriptor is open.
        if unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_KEEP_SIZE, 0, length) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(false),
            _ => return Err(error),
        }
    }
}

/// Writes pages to the disk without the file system's journal, which commits might have to wait for.
#[cfg(target_os = "linux")]
fn write_out(file: &File, offset: u64, length: u64) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let number =
        |number| libc::off64_t::try_from(number).map_err(|_| io::Error::from(ErrorKind::FileTooLarge));
    let (offset, length) = (number(offset)?, number(length)?);
    let flags =
        libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: no memory is handed over, and the descriptor is open.
    if unsafe { libc::sync_file_range(file.as_raw_fd(), offset, length, flags) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EINVAL | libc::ESPIPE) => file.sync_data(),
        _ => Err(error),
    }
}

/// Other systems write a part of a file only with all of it.
#[cfg(not(target_os = "linux"))]
fn write_out(file: &File, _: u64, _: u64) -> io::Result<()> {
    file.sync_data()
}

/// Other systems can reserve blocks only by making the file longer.
#[cfg(not(target_os = "linux"))]
fn allocate(_: &File, _: u64) -> io::Result<bool> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_let_go_in_a_moment_is_no_owner() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::open(parent.path()).unwrap();
        // As a child that was started just now holds it: the same open file, closed a little later.
        let file = File::create(parent.path().join(LOCK)).unwrap();
        file.lock().unwrap();
        let later = std::thread::spawn(move || {
            std::thread::sleep(10 * LOCK_PAUSE);
            drop(file);
        });
        let _guard = folder.lock().expect("let go in time");
        later.join().unwrap();
        let error = folder.lock().map(|_| ()).expect_err("this one stays");
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
    }

    #[test]
    fn a_folder_is_made_and_its_files_are_kept() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("bank");
        let folder = Folder::open(&path).unwrap();
        let _guard = folder.lock().unwrap();
        let file = folder.create("a").unwrap();
        file.append(b"hello ").unwrap();
        file.append(b"world").unwrap();
        file.sync().unwrap();
        folder.rename("a", "b").unwrap();
        folder.sync_names().unwrap();
        assert_eq!(folder.names().unwrap(), ["b"]);

        let file = Folder::open(&path).unwrap().open("b").unwrap();
        assert_eq!(file.length().unwrap(), 11);
        let mut word = [0; 5];
        super::super::read_exact_at(&*file, 6, &mut word).unwrap();
        assert_eq!(&word, b"world");
        // What is reserved is not seen, and given back.
        file.reserve(1 << 20).unwrap();
        assert_eq!(file.length().unwrap(), 11);
        file.truncate(5).unwrap();
        file.append(b"!").unwrap();
        assert_eq!(super::super::read_all(&*file).unwrap(), b"hello!");
        file.write_at(1, b"a").unwrap();
        file.write_at(7, b"?").unwrap();
        file.write_out(0, 8).unwrap();
        assert_eq!(super::super::read_all(&*file).unwrap(), b"hallo!\0?");
        file.truncate(6).unwrap();
        assert_eq!(file.read_at(6, &mut word).unwrap(), 0);
        folder.remove("b").unwrap();
        assert!(folder.names().unwrap().is_empty());
    }

    #[test]
    fn a_folder_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let first = Folder::open(folder.path()).unwrap();
        let second = Folder::open(folder.path()).unwrap();
        let guard = first.lock().unwrap();
        let error = second.lock().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(
            error
                .to_string()
                .contains(&format!("process {}", std::process::id())),
            "{error}"
        );
        drop(guard);
        second.lock().unwrap();
    }

    #[test]
    fn what_cannot_be_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let error = Folder::open(folder.path().join("no/such")).unwrap_err();
        assert!(
            error.to_string().contains("parent directory is missing"),
            "{error}"
        );
        fs::write(folder.path().join("plain"), "x").unwrap();
        let error = Folder::open(folder.path().join("plain")).unwrap_err();
        assert!(error.to_string().contains("not a directory"), "{error}");

        let folder = Folder::open(folder.path()).unwrap();
        assert_eq!(
            folder.create("plain").err().unwrap().kind(),
            ErrorKind::AlreadyExists
        );
        assert_eq!(folder.open("missing").err().unwrap().kind(), ErrorKind::NotFound);
        for name in ["", "..", "a/b", ".hidden", LOCK] {
            assert_eq!(
                folder.create(name).err().unwrap().kind(),
                ErrorKind::InvalidInput,
                "{name:?}"
            );
        }
    }
}
