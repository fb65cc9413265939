//! The image of deploy/Containerfile as an OCI layout in a file, which `docker load` and
//! `podman load` take.

use std::path::Path;

use serde_json::{Value, json};

use super::packed::{Archive, Files, gzip, sha256};
use crate::command::{Result, read_bytes};
use crate::image::Recipe;

/// The authorities that the program trusts, at their place in the image and on this machine.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The image of a program, as a file that can be loaded.
pub(super) fn image(
    recipe: &Recipe,
    version: &str,
    architecture: &str,
    program: &[u8],
) -> Result<Vec<u8>> {
    let layer = layer(recipe, program)?;
    let [start, arguments @ ..] = &recipe.start[..] else {
        return Err("the container file starts nothing".to_owned());
    };
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": recipe.user,
            "ExposedPorts": {format!("{}/tcp", recipe.port): {}},
            "Volumes": {&recipe.volume: {}},
            "Entrypoint": [start],
            "Cmd": arguments,
            "Labels": {
                "org.opencontainers.image.title": "tidings",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))]},
        "history": [{"created_by": "cargo xtask release"}],
    });
    let mut files = Files::new();
    let config = blob(&mut files, CONFIG, config.to_string().into_bytes());
    let layer = blob(&mut files, LAYER, gzip(&layer)?);
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
    });
    let mut manifest = blob(&mut files, MANIFEST, manifest.to_string().into_bytes());
    manifest["platform"] = json!({"architecture": architecture, "os": "linux"});
    manifest["annotations"] = json!({
        "org.opencontainers.image.ref.name": version,
        "io.containerd.image.name": format!("docker.io/library/tidings:{version}"),
    });
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [manifest]});
    // For programs that do not know layouts.
    let path = |blob: &Value| {
        let digest = blob["digest"].as_str().unwrap_or_default();
        format!("blobs/{}", digest.replace(':', "/"))
    };
    let legacy = json!([{
        "Config": path(&config), "Layers": [path(&layer)],
        "RepoTags": [format!("tidings:{version}")],
    }]);
    for (name, content) in [
        ("index.json", index),
        ("oci-layout", json!({"imageLayoutVersion": "1.0.0"})),
        ("manifest.json", legacy),
    ] {
        files.insert(name.to_owned(), content.to_string().into_bytes());
    }
    Archive::of("", &files)
}

/// The files of an image.
fn layer(recipe: &Recipe, program: &[u8]) -> Result<Vec<u8>> {
    let authorities = read_bytes(&Path::new("/").join(AUTHORITIES))
        .map_err(|error| format!("{error} (Debian: ca-certificates)"))?;
    let owner = recipe.user.split(':').next().unwrap_or_default().parse();
    let owner = owner.map_err(|_| format!("{:?} has no number", recipe.user))?;
    let mut archive = Archive::new();
    archive.folder(
        &format!("{}/", recipe.volume.trim_start_matches('/')),
        owner,
    )?;
    for folder in ["etc/", "etc/ssl/", "etc/ssl/certs/"] {
        archive.folder(folder, 0)?;
    }
    archive.file(AUTHORITIES, &authorities, 0o644)?;
    for folder in ["usr/", "usr/bin/"] {
        archive.folder(folder, 0)?;
    }
    archive.file("usr/bin/tidings", program, 0o755)?;
    archive.finish()
}

/// Adds a blob, and returns its descriptor.
fn blob(files: &mut Files, media: &str, bytes: Vec<u8>) -> Value {
    let digest = sha256(&bytes);
    let descriptor = json!({
        "mediaType": media, "digest": format!("sha256:{digest}"), "size": bytes.len(),
    });
    files.insert(format!("blobs/sha256/{digest}"), bytes);
    descriptor
}
