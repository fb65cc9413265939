//! Where archives are on object storage, by a URL.
//!
//! Credentials come from the environment, from files and from the cloud's own mechanisms, never
//! from the URL.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ClientConfigKey, ObjectStore};
use tokio::sync::Semaphore;

use crate::client::Clients;
use crate::foreign::{self, Foreign};
use crate::private;

/// Maximum clusters of a place that are listed.
const CLUSTERS_MAX: usize = 10_000;

/// Folders that are looked into at once.
const FOLDERS_AT_ONCE: usize = 16;

/// Why a URL cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    /// The URL is of an unknown kind.
    #[error(
        "{url:?} is not the URL of an object storage: expected s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or file:///FOLDER"
    )]
    Url {
        /// The URL, without credentials.
        url: String,
    },
    /// The storage cannot be used with the environment's settings, or does not answer.
    #[error("{url}: {source}")]
    Store {
        /// The URL.
        url: String,
        /// The error of the storage.
        source: object_store::Error,
    },
    /// The folder does not exist, or cannot be made.
    #[error("{}: {source}", folder.display())]
    Folder {
        /// The folder's path.
        folder: PathBuf,
        /// The error of the file system.
        source: std::io::Error,
    },
}

/// A bucket or folder, and the prefix in it where archives are.
#[derive(Clone, Debug)]
pub struct Place {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) prefix: Path,
    /// The folder, if objects are local files.
    pub(crate) folder: Option<PathBuf>,
    url: String,
    /// A permit for making files here, one at a time for all clusters, as that takes memory.
    pub(crate) turn: Arc<Semaphore>,
    /// The names here that no archive gives.
    pub(crate) foreign: Arc<Foreign>,
}

impl Place {
    /// Opens the place of a URL for writing. A folder that does not exist is made, for its owner
    /// only; otherwise like [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// Errors of [`open`](Self::open). Also if the folder cannot be made.
    pub fn create(url: &str) -> Result<Self, PlaceError> {
        if let Some(folder) = url.strip_prefix("file://").filter(|it| it.starts_with('/')) {
            let folder = PathBuf::from(folder);
            private::create_folder(&folder)
                .map_err(|source| PlaceError::Folder { folder, source })?;
        }
        Self::open(url)
    }

    /// Opens the place of a URL: `s3://BUCKET/PREFIX`, `gs://…`, `az://…`, or `file:///FOLDER`. It
    /// sends no request to a cloud's storage yet.
    ///
    /// # Errors
    ///
    /// The URL is of an unknown kind, the folder does not exist, or the environment's settings
    /// cannot be used.
    pub fn open(url: &str) -> Result<Self, PlaceError> {
        Self::open_with(url, &[])
    }

    /// Opens the place of a URL with settings that override the environment's. Settings have the
    /// names of environment variables, such as `AWS_ENDPOINT`. A folder ignores them.
    ///
    /// # Errors
    ///
    /// Errors of [`open`](Self::open). Also if a setting is unknown.
    pub fn open_with(url: &str, settings: &[(&str, &str)]) -> Result<Self, PlaceError> {
        let unknown = || PlaceError::Url {
            url: without_credentials(url),
        };
        let failed = |source| PlaceError::Store {
            url: url.to_owned(),
            source,
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(unknown)?;
        if scheme == "file" {
            return Self::folder(url, rest);
        }
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() || rest.contains(['?', '#', '@']) {
            return Err(unknown());
        }
        let store: Arc<dyn ObjectStore> = match scheme {
            "s3" | "s3a" => {
                let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
                for (name, value) in settings {
                    builder = builder.with_config(key(name).map_err(failed)?, *value);
                }
                let built = builder.with_http_connector(Clients).build();
                Arc::new(built.map_err(failed)?)
            }
            "gs" => {
                let mut builder = google().with_bucket_name(bucket);
                for (name, value) in settings {
                    builder = builder.with_config(key(name).map_err(failed)?, *value);
                }
                let built = builder.with_http_connector(Clients).build();
                Arc::new(built.map_err(failed)?)
            }
            "az" => {
                let mut builder = MicrosoftAzureBuilder::from_env().with_container_name(bucket);
                for (name, value) in settings {
                    builder = builder.with_config(key(name).map_err(failed)?, *value);
                }
                let built = builder.with_http_connector(Clients).build();
                Arc::new(built.map_err(failed)?)
            }
            _ => return Err(unknown()),
        };
        let prefix = Path::parse(prefix.trim_matches('/')).map_err(|_| unknown())?;
        Ok(Self {
            store,
            prefix,
            folder: None,
            url: url.trim_end_matches('/').to_owned(),
            turn: Arc::new(Semaphore::new(1)),
            foreign: Arc::default(),
        })
    }

    fn folder(url: &str, path: &str) -> Result<Self, PlaceError> {
        if !path.starts_with('/') {
            let url = url.to_owned();
            return Err(PlaceError::Url { url });
        }
        let folder = PathBuf::from(path);
        // Checked here, as object_store would say of a missing folder only that it cannot be made
        // canonical.
        std::fs::read_dir(&folder).map_err(|source| PlaceError::Folder {
            folder: folder.clone(),
            source,
        })?;
        let store = LocalFileSystem::new_with_prefix(&folder);
        let store = store.map_err(|source| PlaceError::Store {
            url: url.to_owned(),
            source,
        })?;
        // Files are synced, so that they are on disk before the manifest that names them.
        let mut place = Self::of(Arc::new(store.with_fsync(true)), url);
        place.folder = Some(folder);
        Ok(place)
    }

    /// Makes a place of any object store, which messages name by `url`.
    pub fn of(store: Arc<dyn ObjectStore>, url: &str) -> Self {
        Self {
            store,
            prefix: Path::default(),
            folder: None,
            url: url.trim_end_matches('/').to_owned(),
            turn: Arc::new(Semaphore::new(1)),
            foreign: Arc::default(),
        }
    }

    /// Wraps the place's object store with another one, to count or limit requests.
    #[must_use]
    pub fn through(self, by: impl FnOnce(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore>) -> Self {
        let store = by(self.store);
        Self { store, ..self }
    }

    /// Returns the URL, which has no credentials.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Lists the clusters that have an archive here, in order of their names. Folders whose names
    /// no cluster can have are left out.
    ///
    /// # Errors
    ///
    /// The object storage does not answer.
    pub async fn clusters(&self) -> Result<Vec<String>, PlaceError> {
        let prefix = Some(&self.prefix).filter(|prefix| !prefix.is_root());
        let failed = |source| PlaceError::Store {
            url: self.url.clone(),
            source,
        };
        let listed = self.store.list_with_delimiter(prefix).await;
        let listed = listed.map_err(failed)?;
        let folders = listed.common_prefixes.into_iter();
        let folders = folders.filter(|folder| {
            let is_cluster = folder.filename().is_some_and(foreign::is_cluster);
            if !is_cluster {
                self.foreign.say(folder);
            }
            is_cluster
        });
        // A folder without manifests is no archive.
        let looks = folders.map(|folder| async move {
            let manifests = folder.clone().join("manifests");
            let mut found = self.store.list(Some(&manifests));
            let is_archive = found.try_next().await?.is_some();
            let name = folder.parts().next_back();
            Ok(name.filter(|_| is_archive).map(|it| it.as_ref().to_owned()))
        });
        let mut looks = stream::iter(looks).buffered(FOLDERS_AT_ONCE);
        let mut names = Vec::new();
        while let Some(name) = looks.try_next().await.map_err(failed)? {
            if names.len() == CLUSTERS_MAX && name.is_some() {
                tracing::error!(
                    url = self.url,
                    clusters_max = CLUSTERS_MAX,
                    "more clusters are archived there than are shown"
                );
                break;
            }
            names.extend(name);
        }
        names.sort();
        Ok(names)
    }
}

/// Reads the settings of Google's cloud from the environment. The builder would allow plain HTTP by
/// default; here it takes a setting, as with the other clouds.
fn google() -> GoogleCloudStorageBuilder {
    let permitted = std::env::var("GOOGLE_ALLOW_HTTP").unwrap_or_else(|_| "false".to_owned());
    let setting = GoogleConfigKey::Client(ClientConfigKey::AllowHttp);
    GoogleCloudStorageBuilder::from_env().with_config(setting, permitted)
}

/// Parses a setting's name, which is that of an environment variable.
fn key<K: FromStr<Err = object_store::Error>>(name: &str) -> Result<K, object_store::Error> {
    name.to_ascii_lowercase().parse()
}

/// Returns a URL as it may be shown, without user and query, which may hold a secret.
fn without_credentials(url: &str) -> String {
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    match (shown.split_once("://"), shown.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://…@{rest}"),
        _ => shown.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    #[test]
    fn urls_that_lead_nowhere_are_refused_and_say_what_is_accepted() {
        for url in [
            "",
            "/folder",
            "ftp://host/x",
            "s3://",
            "file://folder",
            "s3://key:s3cret@bucket/x",
            "s3://bucket/x?secret=s3cret",
        ] {
            let error = Place::open(url).unwrap_err().to_string();
            assert!(error.contains("file:///FOLDER"), "{url}: {error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    /// The refusal comes at once, without minutes of retries.
    #[tokio::test]
    async fn plain_http_is_refused_unless_it_is_permitted() {
        let s3 = [
            ("AWS_ENDPOINT", "http://127.0.0.1:1"),
            ("AWS_ACCESS_KEY_ID", "key"),
            ("AWS_SECRET_ACCESS_KEY", "s3cret"),
        ];
        let google = [
            ("GOOGLE_BASE_URL", "http://127.0.0.1:1"),
            ("GOOGLE_BEARER_TOKEN", "s3cret"),
        ];
        let azure = [
            ("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:1/account"),
            ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
            ("AZURE_STORAGE_ACCOUNT_KEY", "czNjcmV0"),
        ];
        let clouds: [(&str, &[(&str, &str)]); 3] = [
            ("s3://bucket/x", &s3),
            ("gs://bucket/x", &google),
            ("az://container/x", &azure),
        ];
        for (url, settings) in clouds {
            let place = Place::open_with(url, settings).unwrap();
            let error = place.clusters().await.unwrap_err().to_string();
            assert!(error.contains("_ALLOW_HTTP=true"), "{url}: {error}");
            assert!(!error.contains("retries"), "{url}: {error}");
        }
    }

    /// However many of them there are, an archive beside them is found.
    #[tokio::test]
    async fn folders_without_manifests_are_no_clusters() {
        let store = Arc::new(InMemory::new());
        let others = (0..=CLUSTERS_MAX).map(|number| format!("a-{number}/notes"));
        let archive = "prod/manifests/00000000000000000001.json".to_owned();
        for path in others.chain([archive]) {
            store.put(&path.into(), "".into()).await.unwrap();
        }
        let place = Place::of(store, "memory:");
        assert_eq!(place.clusters().await.unwrap(), ["prod"]);
    }

    #[test]
    fn a_folder_is_made_only_to_write_there() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file://{}/new", folder.path().display());
        let error = Place::open(&url).unwrap_err().to_string();
        assert!(error.contains("/new: "), "{error}");
        assert!(!folder.path().join("new").exists());
        Place::create(&url).unwrap();
        Place::open(&url).unwrap();
    }
}
