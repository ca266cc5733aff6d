//! The files a process's memory was mapped from.

use std::path::{Path, PathBuf};

/// A file whose code a traced program ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The file, as the program sees it.
    pub path: PathBuf,
    /// What to subtract from an address in memory to get the one the file was linked for.
    pub bias: u64,
    /// First address of its code in memory ...
    pub start: u64,
    /// ... and the one behind its last.
    pub end: u64,
}

impl Module {
    /// The file's name without its folders.
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// Whether its code is at this address.
    pub fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// One line of a process's `maps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub start: u64,
    pub end: u64,
    pub executable: bool,
    pub offset: u64,
    /// Absolute path of the file, if it is one.
    pub path: Option<PathBuf>,
}

/// Reads the text of `/proc/PID/maps`. Lines that are none are left out.
pub(crate) fn mappings(text: &str) -> Vec<Mapping> {
    text.lines().filter_map(mapping).collect()
}

fn mapping(line: &str) -> Option<Mapping> {
    // start-end rwxp offset device inode     path
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let offset = fields.next()?;
    let _device = fields.next()?;
    let _inode = fields.next()?;
    let path = fields.next().unwrap_or_default().trim_start();
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        executable: permissions.as_bytes().get(2) == Some(&b'x'),
        offset: u64::from_str_radix(offset, 16).ok()?,
        path: path.starts_with('/').then(|| Path::new(path).to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_read() {
        let text = "\
555555554000-555555555000 r--p 00000000 fe:00 131 /tmp/a b (deleted)
555555555000-555555556000 r-xp 00001000 fe:00 131                        /tmp/a b (deleted)
7ffff7fc1000-7ffff7fc3000 r-xp 00000000 00:00 0                          [vdso]
7ffff7ffe000-7ffff7fff000 rw-p 00000000 00:00 0
nonsense
";
        let read = mappings(text);
        assert_eq!(read.len(), 4);
        assert_eq!(
            read[1],
            Mapping {
                start: 0x5555_5555_5000,
                end: 0x5555_5555_6000,
                executable: true,
                offset: 0x1000,
                path: Some("/tmp/a b".into())
            }
        );
        assert!(!read[0].executable && read[0].path.is_some());
        assert!(read[2].executable && read[2].path.is_none());
        assert!(read[3].path.is_none());
    }
}
