//! [`Bucket`]: a bucket of an object store that statements may reach, over the S3 protocol.

use super::error::DataError;
use object_store::ObjectStore;
use object_store::aws::AmazonS3Builder;
use std::sync::Arc;
use url::Url;

/// One bucket, as the configuration names it. Its address in SQL is `s3://NAME/`.
#[derive(Clone, Default)]
pub struct Bucket {
    /// Name of the bucket.
    pub name: String,
    /// Address of the service, `https://host:port`; `None`: Amazon's for the region.
    pub endpoint: Option<String>,
    /// Region; `None`: `us-east-1`.
    pub region: Option<String>,
    /// Key and secret; `None`: requests are not signed (a public bucket).
    pub credentials: Option<(String, String)>,
    /// Whether the service may be asked without TLS.
    pub allow_http: bool,
    /// Whether `COPY` may write into it.
    pub write: bool,
}

impl std::fmt::Debug for Bucket {
    /// Without the credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bucket")
            .field("name", &self.name)
            .field("endpoint", &self.endpoint)
            .field("write", &self.write)
            .finish_non_exhaustive()
    }
}

impl Bucket {
    /// The bucket's address, and what reaches it.
    ///
    /// # Errors
    /// Settings that the client of the protocol does not take.
    pub(crate) fn open(&self) -> Result<(Url, Arc<dyn ObjectStore>), DataError> {
        let wrong = |error: String| {
            DataError::config(format!("the bucket \"{}\" cannot be set up", self.name)).detail(error)
        };
        let address = Url::parse(&format!("s3://{}", self.name)).map_err(|error| wrong(error.to_string()))?;
        if address.host_str() != Some(self.name.as_str()) {
            return Err(wrong(
                "a bucket's name has lower-case letters, digits, dots and dashes".to_owned(),
            ));
        }
        // Not `from_env`: keys of the server's own surroundings are for nobody's statements.
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&self.name)
            .with_region(self.region.as_deref().unwrap_or("us-east-1"))
            .with_allow_http(self.allow_http);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        builder = match &self.credentials {
            Some((key, secret)) => builder.with_access_key_id(key).with_secret_access_key(secret),
            None => builder.with_skip_signature(true),
        };
        let store = builder.build().map_err(|error| wrong(error.to_string()))?;
        Ok((address, Arc::new(store)))
    }
}
