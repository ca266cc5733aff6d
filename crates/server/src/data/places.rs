//! [`Places`]: which files and buckets statements may touch. Everything else is denied.
//!
//! A path is allowed when it lies below an allowed folder *after* symbolic links are followed. Texts with `..`, with `file://` or with a
//! scheme that no bucket is configured for are refused before the disk is asked. Whether a path outside exists is never told.

use super::buckets::Bucket;
use super::config::OPTIONS_FILE;
use super::error::DataError;
use corun_store::Store;
use datafusion::datasource::listing::ListingTableUrl;
use std::path::{Component, Path, PathBuf};
use url::Url;

/// What a statement wants of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Access {
    fn verb(self) -> &'static str {
        match self {
            Access::Read => "read",
            Access::Write => "written",
        }
    }
}

/// Folders, with their links followed, and buckets.
#[derive(Debug, Default)]
pub(crate) struct Places {
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    buckets: Vec<(String, bool)>,
}

impl Places {
    /// # Errors
    /// A folder that is not there.
    pub(crate) fn new(read: &[PathBuf], write: &[PathBuf], buckets: &[Bucket]) -> Result<Places, DataError> {
        let follow = |folders: &[PathBuf]| -> Result<Vec<PathBuf>, DataError> {
            folders.iter().map(|folder| canonical_folder(folder)).collect()
        };
        Ok(Places {
            read: follow(read)?,
            write: follow(write)?,
            buckets: buckets
                .iter()
                .map(|bucket| (bucket.name.clone(), bucket.write))
                .collect(),
        })
    }

    fn folders(&self, access: Access) -> &[PathBuf] {
        match access {
            Access::Read => &self.read,
            Access::Write => &self.write,
        }
    }

    /// The place that a text in a statement names, as an address without wildcards. Relative paths are looked for in the allowed folders in
    /// the order of the configuration; one to be written is below the first.
    ///
    /// # Errors
    /// A text that names no allowed place.
    pub(crate) fn resolve(&self, text: &str, access: Access) -> Result<ListingTableUrl, DataError> {
        if text.contains("://") || text.starts_with("file:") {
            return self.in_bucket(text, access);
        }
        let path = Path::new(text);
        if text.contains('\0') || path.components().any(|part| part == Component::ParentDir) {
            return Err(
                DataError::denied(format!("the path '{text}' may not have \"..\" in it"))
                    .hint("name the file by its path below an allowed folder"),
            );
        }
        let found = match path.is_absolute() {
            true => self.allowed(path, access)?,
            false => self.relative(path, access)?,
        };
        let folder = text.ends_with('/') || found.is_dir();
        let address = match folder {
            true => Url::from_directory_path(&found),
            false => Url::from_file_path(&found),
        };
        address
            .and_then(|address| ListingTableUrl::try_new(address, None).map_err(|_| ()))
            .map_err(|()| DataError::unreadable(format!("the path '{text}' cannot be written as an address")))
    }

    /// The folder of this machine that a text names to be written into; a relative one is below the first that may be.
    ///
    /// # Errors
    /// A text that names no allowed place.
    pub(crate) fn folder_to_write(&self, text: &str) -> Result<PathBuf, DataError> {
        let path = Path::new(text);
        let strange = text.contains('\0') || text.contains("://");
        if strange || path.components().any(|part| part == Component::ParentDir) {
            return Err(refused(path, Access::Write));
        }
        match path.is_absolute() {
            true => self.allowed(path, Access::Write),
            false => self.relative(path, Access::Write),
        }
    }

    fn relative(&self, path: &Path, access: Access) -> Result<PathBuf, DataError> {
        let folders = self.folders(access);
        let found = match access {
            Access::Read => folders.iter().find(|folder| folder.join(path).exists()),
            Access::Write => folders.first(),
        };
        match found {
            Some(folder) => self.allowed(&folder.join(path), access),
            None => Err(refused(path, access)),
        }
    }

    /// The path with links followed, if that is allowed. A file that is to be written need not be there yet; a link is never written through.
    ///
    /// # Errors
    /// A path that is not below an allowed folder.
    pub(crate) fn allowed(&self, path: &Path, access: Access) -> Result<PathBuf, DataError> {
        let folders = self.folders(access);
        let below = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
        let found = match access {
            Access::Read => path.canonicalize().ok(),
            Access::Write => writable(path),
        };
        match found.filter(|found| below(found)) {
            Some(found) => Ok(found),
            None => Err(refused(path, access)),
        }
    }

    fn in_bucket(&self, text: &str, access: Access) -> Result<ListingTableUrl, DataError> {
        let refused = || {
            DataError::denied(format!(
                "'{text}' is not in a bucket that may be {}",
                access.verb()
            ))
            .hint("the server's configuration names the buckets; a file's path is given without \"file://\"")
        };
        if text.split('/').any(|part| part == "..") || text.to_ascii_lowercase().contains("%2e%2e") {
            return Err(refused());
        }
        let address = Url::parse(text).map_err(|_| refused())?;
        let bucket = address.host_str().unwrap_or_default();
        let known = self.buckets.iter().find(|(name, _)| name == bucket);
        let allowed = known.is_some_and(|(_, write)| access == Access::Read || *write);
        if address.scheme() != "s3" || !allowed || !address.username().is_empty() || address.port().is_some()
        {
            return Err(refused());
        }
        ListingTableUrl::try_new(address, None).map_err(|_| refused())
    }
}

/// Where a file that is to be written would be: its folder with links followed, as far as it is there. `None` for links, for the options of
/// a folder, and inside of a store.
fn writable(path: &Path) -> Option<PathBuf> {
    if path.is_symlink() {
        return None;
    }
    let mut missing = vec![path.file_name()?.to_owned()];
    let mut folder = path.parent()?;
    let mut found = loop {
        match folder.canonicalize() {
            Ok(found) => break found,
            Err(_) if folder.is_symlink() => return None,
            Err(_) => {
                missing.push(folder.file_name()?.to_owned());
                folder = folder.parent()?;
            }
        }
    };
    let own = missing[0] == OPTIONS_FILE || missing[0].to_string_lossy().starts_with("corun.");
    if own || found.ancestors().any(Store::is_in) {
        return None;
    }
    found.extend(missing.into_iter().rev());
    Some(found)
}

fn refused(path: &Path, access: Access) -> DataError {
    let path = path.display();
    DataError::denied(format!("there is no file '{path}' that may be {}", access.verb())).hint(
        "statements reach files below the folders that the server's configuration allows, and nothing else",
    )
}

/// A folder of the configuration, with its links followed.
///
/// # Errors
/// One that is not there or is not a folder.
pub(crate) fn canonical_folder(folder: &Path) -> Result<PathBuf, DataError> {
    let found = folder.canonicalize().map_err(|error| {
        DataError::config(format!("cannot open the folder {}", folder.display())).detail(error.to_string())
    })?;
    match found.is_dir() {
        true => Ok(found),
        false => Err(DataError::config(format!("{} is not a folder", folder.display()))),
    }
}
