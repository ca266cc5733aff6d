//! The same twin of the kernel behind a real mount (FUSE): the client's system calls against the kernel's rules.
//!
//! Where FUSE is missing, or mounting is not allowed, the test says so and passes: every rule is also tested without.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use machine::resctrl::twin::{PROC, ROOT, Spec, Twin};
use machine::resctrl::{ClassState, Client, Files, ResctrlError, Settings, SystemFiles, Who};
use model::partition::{Class, DefaultShare, Wishes};
use model::units::Ways;
use tempfile::TempDir;

/// Nothing may be remembered: the tree changes behind the mount.
const AT_ONCE: Duration = Duration::ZERO;

/// A thin front: paths of inodes, all else is the twin's.
struct Front {
    twin: Twin,
    /// Paths by inode number, from 1 on.
    paths: Mutex<Vec<PathBuf>>,
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
    Errno::from_i32(error.raw_os_error().unwrap_or(libc::EIO))
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
        match self.twin.make_folder(&path).and_then(|()| self.attributes(&path)) {
            Ok(attributes) => reply.entry(&AT_ONCE, &attributes, Generation(0)),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.twin.remove_folder(&self.path(parent).join(name)) {
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
        match self.twin.read(&self.path(inode)) {
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
        match self.twin.write(&self.path(inode), &String::from_utf8_lossy(data)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(number(&error)),
        }
    }

    fn readdir(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let path = self.path(inode);
        let folders = match self.folders(&path) {
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

/// A mounted twin, or why there is none.
struct Mounted {
    twin: Twin,
    /// Dropped first: unmounts.
    _session: BackgroundSession,
    folder: TempDir,
}

impl Mounted {
    fn new(spec: Spec) -> Option<Self> {
        let folder = TempDir::new().expect("a temporary folder");
        let mount = folder.path().join("mount");
        fs::create_dir(&mount).expect("a folder");
        let twin = Twin::new(spec);
        let front = Front {
            twin: twin.clone(),
            paths: Mutex::new(vec![PathBuf::from("/")]),
        };
        match fuser::spawn_mount(front, &mount, &Config::default()) {
            Ok(session) => Some(Self {
                twin,
                _session: session,
                folder,
            }),
            Err(error) => {
                let text = format!("skipped: nothing can be mounted with FUSE here: {error}\n");
                io::stderr()
                    .write_all(text.as_bytes())
                    .expect("standard error is open");
                None
            }
        }
    }

    /// A path below the mounted resctrl.
    fn path(&self, path: &str) -> PathBuf {
        self.mount().join(ROOT.trim_start_matches('/')).join(path)
    }

    fn mount(&self) -> PathBuf {
        self.folder.path().join("mount")
    }

    fn client(&self) -> Client<SystemFiles> {
        let settings = Settings {
            root: self.path(""),
            proc: self.mount().join(PROC.trim_start_matches('/')),
            journal: self.folder.path().join("run/partition.json"),
            lock_wait: Duration::ZERO,
        };
        Client::new(SystemFiles, settings)
    }
}

fn wishes(ways: u32) -> Wishes {
    Wishes {
        weak_ways: Ways(ways),
        default: DefaultShare::Rest,
        level: None,
        domains: None,
        weak_bandwidth_percent: None,
    }
}

#[test]
fn error_numbers_reach_the_caller() {
    let Some(mounted) = Mounted::new(Spec::xeon()) else {
        return;
    };
    let number = |result: io::Result<()>| result.expect_err("refused").raw_os_error();
    let write = |path: &str, text: &str| fs::write(mounted.path(path), text);
    fs::create_dir(mounted.path("p")).expect("a group");
    assert_eq!(number(fs::create_dir(mounted.path("p"))), Some(libc::EEXIST));
    assert_eq!(number(fs::create_dir(mounted.path("p/q"))), Some(libc::EPERM));
    assert_eq!(number(write("p/schemata", "L3:0=3")), Some(libc::EINVAL));
    assert_eq!(number(write("p/schemata", "L3:0=5\n")), Some(libc::EINVAL));
    assert_eq!(
        fs::read_to_string(mounted.path("info/last_cmd_status")).unwrap(),
        "The mask 5 has non-consecutive 1-bits\n"
    );
    assert_eq!(
        number(write("p/schemata", &format!("L3:0=3{}\n", " ".repeat(4096)))),
        Some(libc::E2BIG)
    );
    assert_eq!(number(write("p/tasks", "99\n")), Some(libc::ESRCH));
    write("p/schemata", "L3:0=3\n").expect("taken");
    assert_eq!(
        fs::read_to_string(mounted.path("p/schemata")).unwrap(),
        "    MB:0=100;1=100\n    L3:0=3;1=7ff\n"
    );
    for group in 0..6 {
        fs::create_dir(mounted.path(&format!("q{group}"))).expect("a group");
    }
    assert_eq!(number(fs::create_dir(mounted.path("q7"))), Some(libc::ENOSPC));
    fs::remove_dir(mounted.path("p")).expect("removed with all its files");
    assert_eq!(number(fs::remove_dir(mounted.path("info"))), Some(libc::EPERM));
    mounted.twin.check();
}

#[test]
fn the_client_works_through_system_calls() {
    let Some(mounted) = Mounted::new(Spec::xeon()) else {
        return;
    };
    let (client, twin) = (mounted.client(), &mounted.twin);
    let process = twin.fork(1);
    let thread = twin.thread(process);
    let plan = client.plan(&wishes(2)).expect("a plan");
    client.apply(&plan).expect("applied");
    let assigned = client.assign(Class::Weak, Who::Tree(process)).expect("assigned");
    assert_eq!((assigned.moved, assigned.settled), (2, true));
    assert_eq!(twin.group_of(thread).as_deref(), Some("corun-weak"));
    let status = client.status().expect("readable");
    assert!(
        status
            .classes
            .iter()
            .all(|class| class.state == ClassState::Planned)
    );
    let lock = SystemFiles
        .try_lock(&mounted.path(""), true)
        .expect("a folder")
        .expect("free");
    assert!(matches!(client.clear(), Err(ResctrlError::Locked { .. })));
    drop(lock);
    let cleared = client.clear().expect("cleared");
    assert_eq!((cleared.removed.len(), cleared.tasks_returned), (2, 2));
    assert!(twin.groups().is_empty());
}

#[test]
fn a_killed_client_is_cleared_by_the_next() {
    let Some(mounted) = Mounted::new(Spec::xeon()) else {
        return;
    };
    let (client, twin) = (mounted.client(), &mounted.twin);
    let plan = client.plan(&wishes(2)).expect("a plan");
    // Two groups with one write each.
    for effects in 0..4 {
        twin.crash_after(effects);
        client.apply(&plan).expect_err("killed");
        assert!(twin.restart());
        client.clear().expect("cleared");
        assert!(twin.groups().is_empty());
    }
    client.apply(&plan).expect("applied");
    client.clear().expect("cleared");
}
