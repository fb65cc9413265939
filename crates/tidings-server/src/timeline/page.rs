//! Serves the page's files, which are part of the program: compressed once, and identified by their
//! digests.
//!
//! They contain nothing about events, and are sent to everyone. A browser asks whether its copy of
//! the page is current. The page refers to the other files in a folder that is named by their
//! content, so that a browser never has to ask for those again.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use ring::digest::{SHA256, digest};

use super::comments::without_comments;
use crate::api::documents::not_found;
use crate::flow::activity::Prepared;
use crate::http::compress::accepts_gzip;
use crate::http::negotiate::is_known;

/// The Content-Security-Policy: the page may run its own files and call its own host, and nothing
/// else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const INDEX: &str = "index.html";
/// The beginning of the paths of the other files.
const ASSETS: &str = "/timeline/assets/";
/// `Cache-Control` of the page: a browser asks each time whether its copy is current.
const CURRENT: &str = "no-cache";
/// `Cache-Control` of the files in the folder that is named by their content: a browser keeps its
/// copy for a year, and does not ask whether it is current.
const FIXED: &str = "max-age=31536000, immutable";

/// The name and content of a file.
type File = (&'static str, &'static [u8]);

macro_rules! files {
    ($($name:literal)+) => {
        &[$(($name, include_bytes!(concat!("page/", $name)))),+]
    };
}

/// All files of the folder `page`, except the licences of third-party files.
const FILES: &[File] = files! {
    "alike.js"
    "api.js"
    "before.js"
    "commands.js"
    "dark.css"
    "density.js"
    "dom.js"
    "early.js"
    "empty.js"
    "filters.js"
    "foot.js"
    "gestures.js"
    "header.js"
    "icon.svg"
    "index.html"
    "kept.js"
    "keys.js"
    "kinds.js"
    "known.js"
    "labels.js"
    "lanes.js"
    "list.js"
    "live.js"
    "loader.js"
    "login.js"
    "main.js"
    "marking.js"
    "minimap.js"
    "notices.js"
    "order.js"
    "paint.js"
    "panel.js"
    "picks.js"
    "picture.js"
    "pins.js"
    "rates.js"
    "reasons.js"
    "shown.js"
    "split.js"
    "splitter.js"
    "style.css"
    "summary.js"
    "surface.js"
    "table.css"
    "terms.js"
    "theme.js"
    "time.js"
    "tip.js"
    "types.js"
    "uplot.css"
    "uplot.js"
    "versions.js"
    "view.js"
    "yaml.js"
};

/// A file that is ready to be sent.
struct Ready {
    name: &'static str,
    content_type: HeaderValue,
    tag: HeaderValue,
    plain: Bytes,
    gzip: Bytes,
}

/// All files, and the folder in which a browser finds them. The folder's name is made of their
/// content, so that a copy of a file in it never has to be asked for again.
struct Page {
    folder: String,
    files: Vec<Ready>,
}

static PAGE: LazyLock<Page> = LazyLock::new(|| {
    let mut files: Vec<Ready> = FILES.iter().map(ready).collect();
    let folder = folder_of(&files);
    if let Some(index) = files.iter_mut().find(|file| file.name == INDEX) {
        let text = String::from_utf8_lossy(&index.plain);
        let text = text.replace(ASSETS, &format!("{ASSETS}{folder}/"));
        *index = made_ready(INDEX, Bytes::from(text));
    }
    Page { folder, files }
});

fn ready((name, content): &File) -> Ready {
    let is_own_script =
        content_type(name).starts_with("text/javascript") && !name.starts_with("uplot");
    let content = match std::str::from_utf8(content) {
        Ok(script) if is_own_script => Bytes::from(without_comments(script)),
        _ => Bytes::from_static(content),
    };
    made_ready(name, content)
}

fn made_ready(name: &'static str, content: Bytes) -> Ready {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory cannot fail.
    let gzip = encoder.write_all(&content).and_then(|()| encoder.finish());
    Ready {
        name,
        content_type: HeaderValue::from_static(content_type(name)),
        tag: HeaderValue::try_from(format!("\"{}\"", short_digest(&content)))
            .unwrap_or(HeaderValue::from_static("\"\"")),
        plain: content,
        gzip: gzip.map(Bytes::from).unwrap_or_default(),
    }
}

fn folder_of(files: &[Ready]) -> String {
    let tags: Vec<&[u8]> = files.iter().map(|file| file.tag.as_bytes()).collect();
    short_digest(&tags.concat())
}

fn short_digest(content: &[u8]) -> String {
    let digest = digest(&SHA256, content);
    let digest = digest.as_ref().iter().take(16);
    digest.fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn content_type(name: &str) -> &'static str {
    let (_, end) = name.rsplit_once('.').unwrap_or_default();
    match end {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        _ => "application/octet-stream",
    }
}

/// GET /timeline
pub(super) async fn index(headers: HeaderMap) -> Response {
    send(INDEX, &headers, CURRENT)
}

/// GET of one of the page's other files. A page that was loaded from another version of the program
/// asks for the file in that version's folder. It gets this version's file, and does not keep it.
pub(super) async fn asset(Path(path): Path<String>, headers: HeaderMap) -> Response {
    let (folder, name) = path.split_once('/').unwrap_or(("", &path));
    let is_fixed = folder == PAGE.folder;
    send(name, &headers, if is_fixed { FIXED } else { CURRENT })
}

fn send(name: &str, asked: &HeaderMap, caching: &'static str) -> Response {
    let Some(file) = PAGE.files.iter().find(|file| file.name == name) else {
        return not_found();
    };
    let tag = file.tag.to_str().unwrap_or_default();
    let mut response = if is_known(asked, tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else if accepts_gzip(asked) && !file.gzip.is_empty() {
        let encoding = [(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"))];
        (encoding, Body::from(file.gzip.clone())).into_response()
    } else {
        Body::from(file.plain.clone()).into_response()
    };
    let headers = response.headers_mut();
    let fixed = [
        (header::CACHE_CONTROL, caching),
        (header::VARY, "Accept-Encoding"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (OPENER_POLICY, "same-origin"),
        (RESOURCE_POLICY, "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_TYPE, file.content_type.clone());
    headers.insert(header::ETAG, file.tag.clone());
    response.extensions_mut().insert(Prepared);
    response
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    /// Maximum bytes that a browser loads.
    const WIRE_MAX: usize = 100 * 1024;

    fn files_in(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files_in(&path, found);
            } else {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_in_the_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/timeline/page");
        let mut found = Vec::new();
        files_in(&folder, &mut found);
        let found: BTreeSet<String> = found
            .iter()
            .map(|path| path.strip_prefix(&folder).unwrap())
            .map(|path| path.to_str().unwrap().to_owned())
            .filter(|name| !name.ends_with("LICENSE"))
            .collect();
        let named: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(found, named);
    }

    #[test]
    fn the_page_is_small() {
        let wire: usize = PAGE.files.iter().map(|file| file.gzip.len()).sum();
        assert!(wire <= WIRE_MAX, "{wire} bytes");
        for file in &PAGE.files {
            let (name, content_type) = (file.name, &file.content_type);
            assert_ne!(content_type, "application/octet-stream", "{name}");
        }
    }

    #[test]
    fn a_copy_that_is_still_good_is_not_sent_again() {
        let mut asked = HeaderMap::new();
        let response = send(INDEX, &asked, CURRENT);
        assert_eq!(response.status(), 200);
        let tag = response.headers()[header::ETAG].clone();
        asked.insert(header::IF_NONE_MATCH, tag);
        assert_eq!(send(INDEX, &asked, CURRENT).status(), 304);
        asked.insert(header::IF_NONE_MATCH, HeaderValue::from_static("\"x\""));
        assert_eq!(send(INDEX, &asked, CURRENT).status(), 200);
        assert_eq!(send("../mod.rs", &asked, CURRENT).status(), 404);
    }

    #[tokio::test]
    async fn files_are_kept_by_the_name_of_their_content() {
        let index = PAGE.files.iter().find(|file| file.name == INDEX).unwrap();
        let text = std::str::from_utf8(&index.plain).unwrap();
        let folder = format!("{ASSETS}{}/", PAGE.folder);
        assert!(text.contains(&folder));
        assert_eq!(text.matches(&folder).count(), text.matches(ASSETS).count());
        let other = |content: &'static str| {
            let content = Bytes::from_static(content.as_bytes());
            folder_of(&[
                made_ready("a.js", Bytes::new()),
                made_ready("b.js", content),
            ])
        };
        assert_eq!(other("1"), other("1"));
        assert_ne!(other("1"), other("2"));
        for (path, expected) in [
            (format!("{}/main.js", PAGE.folder), (200, FIXED)),
            ("0123/main.js".to_owned(), (200, CURRENT)),
            ("main.js".to_owned(), (200, CURRENT)),
        ] {
            let response = asset(axum::extract::Path(path.clone()), HeaderMap::new()).await;
            let caching = response.headers()[header::CACHE_CONTROL].to_str().unwrap();
            assert_eq!((response.status().as_u16(), caching), expected, "{path}");
        }
        let other = format!("{}/x/main.js", PAGE.folder);
        let response = asset(axum::extract::Path(other), HeaderMap::new()).await;
        assert_eq!(response.status(), 404);
    }
}
