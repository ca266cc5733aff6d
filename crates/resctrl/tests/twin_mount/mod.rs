//! The twin of the kernel's resctrl behind a real mount (FUSE), for tests of clients that are processes of their own.
//!
//! Not a test itself; test programs of several crates take it in by its path, and each uses a part of it, hence the
//! `dead_code` allowance.
#![allow(dead_code)]

mod skipped;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use corun_resctrl::twin::{PROC, ROOT, Spec, Twin};
use corun_resctrl::{Files, Settings};
use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use tempfile::TempDir;

use skipped::skipped;

/// Nothing may be remembered: the tree changes behind the mount.
const AT_ONCE: Duration = Duration::ZERO;
/// Longest time a stopped operation waits for its release.
const STOP_MAX: Duration = Duration::from_secs(30);

/// A thin front: paths of inodes, all else is the twin's.
struct Front {
    twin: Twin,
    /// Paths by inode number, from 1 on.
    paths: Mutex<Vec<PathBuf>>,
    gate: Arc<Gate>,
}

impl Front {
    fn path(&self, inode: INodeNo) -> PathBuf {
        let paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        paths[u64::from(inode) as usize - 1].clone()
    }

    fn inode(&self, path: &Path) -> INodeNo {
        let mut paths = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        let at = paths.iter().position(|known| known == path).unwrap_or_else(|| {
            paths.push(path.to_owned());
            paths.len() - 1
        });
        INodeNo(at as u64 + 1)
    }

    /// Folders above the twin's two trees.
    fn folders(&self, path: &Path) -> io::Result<Vec<String>> {
        let trees = [ROOT, PROC].map(Path::new);
        if path == Path::new("/") {
            return Ok(vec!["sys".to_owned(), "proc".to_owned()]);
        }
        match trees.iter().find_map(|tree| tree.strip_prefix(path).ok()) {
            Some(below) if !below.as_os_str().is_empty() => Ok(below
                .iter()
                .take(1)
                .map(|name| name.to_string_lossy().into_owned())
                .collect()),
            _ => self.twin.folders(path),
        }
    }

    fn attributes(&self, path: &Path) -> io::Result<FileAttr> {
        let kind = match self.folders(path) {
            Ok(_) => FileType::Directory,
            Err(_) => self.twin.read(path).map(|_| FileType::RegularFile)?,
        };
        Ok(FileAttr {
            ino: self.inode(path),
            size: 0,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm: if kind == FileType::Directory { 0o755 } else { 0o644 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

fn number(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_i32)
}

impl Filesystem for Front {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(&self.path(parent).join(name)) {
            Ok(attributes) => reply.entry(&AT_ONCE, &attributes, Generation(0)),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(&self.path(inode)) {
            Ok(attributes) => reply.attr(&AT_ONCE, &attributes),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // Shells truncate before they write; the kernel's files take no notice.
        self.getattr(request, inode, handle, reply);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let path = self.path(parent).join(name);
        let made = self.twin.make_folder(&path).and_then(|()| self.attributes(&path));
        self.gate.pass();
        match made {
            Ok(attributes) => reply.entry(&AT_ONCE, &attributes, Generation(0)),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let removed = self.twin.remove_folder(&self.path(parent).join(name));
        self.gate.pass();
        match removed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let text = self.twin.read(&self.path(inode));
        self.gate.pass();
        match text {
            Ok(text) => {
                let from = text.len().min(offset as usize);
                let to = text.len().min(from + size as usize);
                reply.data(&text.as_bytes()[from..to]);
            }
            Err(error) => reply.error(number(&error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        _offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.twin.write(&self.path(inode), &String::from_utf8_lossy(data));
        self.gate.pass();
        match written {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn readdir(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let path = self.path(inode);
        let folders = self.folders(&path);
        self.gate.pass();
        let folders = match folders {
            Ok(folders) => folders,
            Err(error) => return reply.error(number(&error)),
        };
        let below_root = path.strip_prefix(ROOT).ok().and_then(Path::to_str);
        let files = below_root
            .and_then(|path| self.twin.entries(path).ok())
            .map(|(_, files)| files);
        let folders = folders.into_iter().map(|name| (FileType::Directory, name));
        let files = files
            .unwrap_or_default()
            .into_iter()
            .map(|name| (FileType::RegularFile, name));
        for (at, (kind, name)) in folders.chain(files).enumerate().skip(offset as usize) {
            if reply.add(self.inode(&path.join(&name)), at as u64 + 1, kind, &name) {
                break;
            }
        }
        reply.ok();
    }
}

/// Stops the mount between an operation and its answer, so that whoever asked can be killed at that very point: the
/// operation has happened, and nothing the caller would do next has.
///
/// Operations are reads, writes, listings and the making and removing of folders, failed ones included; looking up names
/// does not count.
#[derive(Default)]
pub struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    operations: u64,
    stop_at: Option<u64>,
    stopped: bool,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Stops after this many more operations.
    pub fn stop_after(&self, operations: u64) {
        let mut state = self.state();
        state.stop_at = Some(state.operations + operations);
    }

    /// Whether an operation waits for its answer now; waits up to `limit` for one.
    pub fn stopped(&self, limit: Duration) -> bool {
        let state = self.state();
        let waited = self
            .changed
            .wait_timeout_while(state, limit, |state| !state.stopped);
        waited.unwrap_or_else(PoisonError::into_inner).0.stopped
    }

    /// Lets the operation be answered, and stops no other one.
    pub fn release(&self) {
        let mut state = self.state();
        (state.stop_at, state.stopped) = (None, false);
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state();
        state.operations += 1;
        if state.stop_at != Some(state.operations) {
            return;
        }
        state.stopped = true;
        self.changed.notify_all();
        // Not for ever: a test that failed meanwhile has to be able to unmount.
        let waited = self
            .changed
            .wait_timeout_while(state, STOP_MAX, |state| state.stopped);
        waited.unwrap_or_else(PoisonError::into_inner).0.stopped = false;
    }
}

/// A mounted twin, or why there is none.
pub struct Mounted {
    /// The machine behind it.
    pub twin: Twin,
    /// Stops the mount at a chosen operation.
    pub gate: Arc<Gate>,
    /// Dropped first: unmounts.
    _session: BackgroundSession,
    folder: TempDir,
}

impl Mounted {
    /// Mounts a fresh twin; `None` where nothing can be mounted, and the test is skipped.
    pub fn new(spec: Spec) -> Option<Self> {
        let folder = TempDir::new().expect("a temporary folder");
        let mount = folder.path().join("mount");
        fs::create_dir(&mount).expect("a folder");
        let twin = Twin::new(spec);
        let gate = Arc::new(Gate::default());
        let front = Front {
            twin: twin.clone(),
            paths: Mutex::new(vec![PathBuf::from("/")]),
            gate: gate.clone(),
        };
        match fuser::spawn_mount(front, &mount, &Config::default()) {
            Ok(session) => Some(Self {
                twin,
                gate,
                _session: session,
                folder,
            }),
            Err(error) => {
                skipped(format!("nothing can be mounted with FUSE here: {error}"));
                None
            }
        }
    }

    /// A path below the mounted resctrl.
    pub fn path(&self, path: &str) -> PathBuf {
        self.mount().join(ROOT.trim_start_matches('/')).join(path)
    }

    fn mount(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    /// Where a client finds everything.
    pub fn settings(&self) -> Settings {
        Settings {
            root: self.path(""),
            proc: self.mount().join(PROC.trim_start_matches('/')),
            journal: self.folder.path().join("run/partition.json"),
            lock_wait: Duration::ZERO,
        }
    }
}
