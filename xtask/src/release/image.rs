//! The image, as an OCI layout and as a file that `docker load` and `podman load` take. It is that
//! of deploy/Containerfile.

use serde_json::{Value, json};

use super::packed::{Archive, Files, gzip, sha256};
use crate::command::Result;
use crate::image::Recipe;

/// The authorities that the program trusts, at their place in the image and on this machine.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The images of one version, one for each architecture.
pub(super) struct Images<'a> {
    recipe: &'a Recipe,
    version: &'a str,
    authorities: Vec<u8>,
    /// The blobs of all images.
    blobs: Files,
    manifests: Vec<Value>,
}

impl<'a> Images<'a> {
    pub(super) fn new(recipe: &'a Recipe, version: &'a str) -> Result<Self> {
        let file = format!("/{AUTHORITIES}");
        let authorities = std::fs::read(&file)
            .map_err(|error| format!("the image needs {file} (ca-certificates): {error}"))?;
        Ok(Self {
            recipe,
            version,
            authorities,
            blobs: Files::new(),
            manifests: Vec::new(),
        })
    }

    /// Adds the image of a program, and returns it as a file that can be loaded.
    pub(super) fn add(&mut self, architecture: &str, program: &[u8]) -> Result<Vec<u8>> {
        let layer = self.layer(program)?;
        let diff = sha256(&layer);
        let [start, arguments @ ..] = &self.recipe.start[..] else {
            return Err("the container file starts nothing".to_owned());
        };
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "config": {
                "User": self.recipe.user,
                "ExposedPorts": {format!("{}/tcp", self.recipe.port): {}},
                "Volumes": {&self.recipe.volume: {}},
                "Entrypoint": [start],
                "Cmd": arguments,
                "Labels": {
                    "org.opencontainers.image.title": "tidings",
                    "org.opencontainers.image.version": self.version,
                    "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
                },
            },
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{diff}")]},
            "history": [{"created_by": "cargo xtask release"}],
        });
        let mut blobs = Files::new();
        let config = blob(&mut blobs, CONFIG, config.to_string().into_bytes());
        let layer = blob(&mut blobs, LAYER, gzip(layer)?);
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
        });
        let mut manifest = blob(&mut blobs, MANIFEST, manifest.to_string().into_bytes());
        manifest["platform"] = json!({"architecture": architecture, "os": "linux"});
        manifest["annotations"] = json!({
            "org.opencontainers.image.ref.name": self.version,
            "io.containerd.image.name": format!("docker.io/library/tidings:{}", self.version),
        });
        self.blobs.extend(blobs.clone());
        let mut files = layout(blobs, std::slice::from_ref(&manifest));
        self.manifests.push(manifest);
        // For programs that do not know layouts.
        let path = |blob: &Value| {
            let digest = blob["digest"].as_str().unwrap_or_default();
            format!("blobs/{}", digest.replace(':', "/"))
        };
        let legacy = json!([{
            "Config": path(&config), "Layers": [path(&layer)],
            "RepoTags": [format!("tidings:{}", self.version)],
        }]);
        files.insert("manifest.json".to_owned(), legacy.to_string().into_bytes());
        Archive::of("", &files)
    }

    /// The layout of all images.
    pub(super) fn layout(self) -> Files {
        layout(self.blobs, &self.manifests)
    }

    /// The files of an image.
    fn layer(&self, program: &[u8]) -> Result<Vec<u8>> {
        let mut archive = Archive::new();
        let owner = self.recipe.user.split(':').next().unwrap_or_default();
        let owner = owner.parse();
        let owner = owner.map_err(|_| format!("{:?} has no number", self.recipe.user))?;
        archive.folder(
            &format!("{}/", self.recipe.volume.trim_start_matches('/')),
            owner,
        )?;
        for folder in ["etc/", "etc/ssl/", "etc/ssl/certs/"] {
            archive.folder(folder, 0)?;
        }
        archive.file(AUTHORITIES, &self.authorities, 0o644)?;
        for folder in ["usr/", "usr/bin/"] {
            archive.folder(folder, 0)?;
        }
        archive.file("usr/bin/tidings", program, 0o755)?;
        archive.finish()
    }
}

/// Adds a blob, and returns its descriptor.
fn blob(blobs: &mut Files, media: &str, bytes: Vec<u8>) -> Value {
    let digest = sha256(&bytes);
    let descriptor = json!({
        "mediaType": media, "digest": format!("sha256:{digest}"), "size": bytes.len(),
    });
    blobs.insert(format!("blobs/sha256/{digest}"), bytes);
    descriptor
}

fn layout(blobs: Files, manifests: &[Value]) -> Files {
    let mut files = blobs;
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
    files.insert("index.json".to_owned(), index.to_string().into_bytes());
    let version = json!({"imageLayoutVersion": "1.0.0"});
    files.insert("oci-layout".to_owned(), version.to_string().into_bytes());
    files
}
