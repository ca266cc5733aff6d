//! [`GuardedFiles`]: the local files of a session, without those that statements may not touch.
//!
//! The last of the checks and the one nothing goes around: DataFusion reads and writes files of the machine through this, whichever
//! statement or option has named them. Each call follows links anew. What it cannot close is the moment between its look and the opening of
//! the file: who may exchange folders for links on the machine itself is not kept out.

use super::places::{Access, Places};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, future};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::fmt;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct GuardedFiles {
    files: Arc<LocalFileSystem>,
    places: Arc<Places>,
}

impl GuardedFiles {
    pub(crate) fn new(places: Arc<Places>) -> Self {
        GuardedFiles {
            files: Arc::new(LocalFileSystem::new()),
            places,
        }
    }

    fn check(&self, location: &Path, access: Access) -> Result<()> {
        let path = self.files.path_to_filesystem(location)?;
        match self.places.allowed(&path, access) {
            Ok(_) => Ok(()),
            Err(error) => Err(object_store::Error::PermissionDenied {
                path: location.to_string(),
                source: Box::new(error),
            }),
        }
    }
}

/// Names that are no data: what other programs leave beside their files while they write.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with(['.', '_'])
}

impl fmt::Display for GuardedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("files below the allowed folders")
    }
}

fn refused(what: &'static str, location: &Path) -> object_store::Error {
    object_store::Error::PermissionDenied {
        path: location.to_string(),
        source: format!("statements do not {what} files").into(),
    }
}

#[async_trait::async_trait]
impl ObjectStore for GuardedFiles {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.check(location, Access::Write)?;
        self.files.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.check(location, Access::Write)?;
        self.files.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.check(location, Access::Read)?;
        self.files.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        locations
            .map(|location| location.and_then(|location| Err(refused("delete", &location))))
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let root = Path::default();
        let prefix = prefix.unwrap_or(&root);
        if let Err(error) = self.check(prefix, Access::Read) {
            return stream::once(future::ready(Err(error))).boxed();
        }
        let own = GuardedFiles {
            files: Arc::clone(&self.files),
            places: Arc::clone(&self.places),
        };
        let listed = self.files.list(Some(prefix));
        let allowed = move |found: &Result<ObjectMeta>| {
            let keep = match found {
                Ok(found) => {
                    !found.location.filename().is_some_and(is_hidden)
                        && own.check(&found.location, Access::Read).is_ok()
                }
                Err(_) => true,
            };
            future::ready(keep)
        };
        listed.filter(allowed).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let root = Path::default();
        let prefix = prefix.unwrap_or(&root);
        self.check(prefix, Access::Read)?;
        let mut found = self.files.list_with_delimiter(Some(prefix)).boxed().await?;
        found
            .objects
            .retain(|object| self.check(&object.location, Access::Read).is_ok());
        found
            .common_prefixes
            .retain(|folder| self.check(folder, Access::Read).is_ok());
        Ok(found)
    }

    async fn copy_opts(&self, from: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(refused("copy", from))
    }
}
