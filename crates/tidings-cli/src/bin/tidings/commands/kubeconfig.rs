//! Reads and merges kubeconfigs as client-go does (clientcmd's `ClientConfigLoadingRules`).
//!
//! Invariants: a missing file is ignored, but an unreadable file is an error, because it might name
//! another cluster than the next file. No error contains a value of a file, because there are
//! secrets among them.

pub(crate) mod chosen;
mod fields;

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use kube::config::{Context, Kubeconfig};
use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;
use tidings_cli::clusters::check_name;

use super::text::one_line;

/// Why a kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KubeconfigError {
    #[error("read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("understand {}: {why}", path.display())]
    Form { path: PathBuf, why: String },
    /// The files cannot be merged.
    #[error("{0}")]
    Merge(String),
}

/// The kubeconfigs that are read if none is named, the first taking precedence.
pub(crate) fn of_environment() -> Vec<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let mut files: Vec<PathBuf> = Vec::new();
    for path in std::env::split_paths(&listed) {
        if !path.as_os_str().is_empty() && !files.contains(&path) {
            files.push(path);
        }
    }
    if !files.is_empty() {
        return files;
    }
    let home = std::env::home_dir();
    home.into_iter()
        .map(|home| home.join(".kube").join("config"))
        .collect()
}

/// Reads a file. Its relative paths start at its folder.
///
/// # Errors
/// The file cannot be read, or client-go would not accept it.
pub(crate) fn read(path: &Path) -> Result<Kubeconfig, KubeconfigError> {
    let failed = |source| KubeconfigError::Read {
        path: path.to_owned(),
        source,
    };
    let bytes = std::fs::read(path).map_err(failed)?;
    let folder = std::path::absolute(path).map_err(failed)?;
    let folder = folder.parent().unwrap_or(Path::new("/"));
    parse(&bytes, folder).map_err(|why| KubeconfigError::Form {
        path: path.to_owned(),
        why,
    })
}

/// Merges the existing files: for each name, and for the current context, the first file that has
/// it decides. `None` if no file has anything.
///
/// # Errors
/// The errors of [`read`].
pub(crate) fn merged(paths: &[PathBuf]) -> Result<Option<Kubeconfig>, KubeconfigError> {
    let mut merged = Kubeconfig::default();
    for path in paths {
        match read(path) {
            Ok(next) => {
                let both = merged.merge(next);
                merged = both.map_err(|error| KubeconfigError::Merge(error.to_string()))?;
            }
            Err(KubeconfigError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(merged).filter(|merged| !is_empty(merged)))
}

/// Parses a kubeconfig whose relative paths start at `folder`.
fn parse(bytes: &[u8], folder: &Path) -> Result<Kubeconfig, String> {
    let text = decoded(bytes)?;
    let options = serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins };
    // client-go reads the first document.
    let text = first_document(&text);
    let documents = serde_saphyr::from_multiple_with_options::<Value>(text, options);
    let documents =
        documents.map_err(|error| one_line(&format!("its YAML: {}", error.without_snippet())))?;
    let mut found = documents.into_iter().next().unwrap_or(Value::Null);
    if found.is_null() {
        return Ok(Kubeconfig::default());
    }
    fields::normalize(&mut found, folder)?;
    // The parser's error might contain a value.
    serde_json::from_value(found).map_err(|_| "it is no kubeconfig".to_owned())
}

/// The text up to the separator behind the first document. What follows may be of any form.
fn first_document(text: &str) -> &str {
    let mut has_content = false;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let is_separator = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if is_separator && has_content {
            return &text[..at];
        }
        let words = line.trim();
        has_content |= !(words.is_empty() || words == "---" || words.starts_with(['#', '%']));
        at += line.len();
    }
    text
}

/// Decodes text in UTF-8, or in UTF-16 with a byte order mark.
fn decoded(bytes: &[u8]) -> Result<String, String> {
    let units = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, rest) = bytes.as_chunks::<2>();
        let text = String::from_utf16(&pairs.iter().copied().map(unit).collect::<Vec<_>>());
        text.ok().filter(|_| rest.is_empty())
    };
    let text = match bytes {
        [0xFF, 0xFE, rest @ ..] => units(rest, u16::from_le_bytes),
        [0xFE, 0xFF, rest @ ..] => units(rest, u16::from_be_bytes),
        [0xEF, 0xBB, 0xBF, rest @ ..] | rest => String::from_utf8(rest.to_vec()).ok(),
    };
    text.ok_or_else(|| "it is no text in UTF-8 or UTF-16".to_owned())
}

/// Whether a kubeconfig has no entries.
fn is_empty(kubeconfig: &Kubeconfig) -> bool {
    current_context(kubeconfig).is_none()
        && kubeconfig.contexts.is_empty()
        && kubeconfig.clusters.is_empty()
        && kubeconfig.auth_infos.is_empty()
}

/// The current context, if one is set.
pub(crate) fn current_context(kubeconfig: &Kubeconfig) -> Option<&str> {
    let current = kubeconfig.current_context.as_deref();
    current.filter(|name| !name.is_empty())
}

/// The context of this name, or the current one.
pub(crate) fn context<'a>(kubeconfig: &'a Kubeconfig, name: Option<&str>) -> Option<&'a Context> {
    let name = name.or(current_context(kubeconfig))?;
    let mut contexts = kubeconfig.contexts.iter();
    let found = contexts.find(|context| context.name == name)?;
    found.context.as_ref()
}

/// The clusters of an archive at the address `root` that contexts lead to, in their order. Each has
/// its first context, unless one of its contexts has the user of the selected context (or of the
/// current one): then the selected one suffices.
pub(crate) fn contexts_at(
    kubeconfig: &Kubeconfig,
    root: &str,
    selected: Option<&str>,
) -> Vec<(String, Option<String>)> {
    let selected = context(kubeconfig, selected);
    let user = selected.and_then(|context| context.user.as_deref());
    let mut all: Vec<(String, Option<String>)> = Vec::new();
    for named in &kubeconfig.contexts {
        let Some(context) = &named.context else {
            continue;
        };
        let mut clusters = kubeconfig.clusters.iter();
        let cluster = clusters.find(|cluster| cluster.name == context.cluster);
        let cluster = cluster.and_then(|cluster| cluster.cluster.as_ref());
        let server = cluster.and_then(|cluster| cluster.server.as_deref());
        let Some(name) = server.and_then(|server| cluster_at(root, server)) else {
            continue;
        };
        let is_same = context.user.as_deref() == user;
        let own = (!is_same).then(|| named.name.clone());
        match all.iter_mut().find(|(known, _)| known == name) {
            None => all.push((name.to_owned(), own)),
            Some((_, former)) if is_same => *former = None,
            Some(_) => {}
        }
    }
    all
}

/// The name of the cluster of an archive at `root` whose address `server` is.
fn cluster_at<'a>(root: &str, server: &'a str) -> Option<&'a str> {
    let below = server.strip_prefix(root.trim_end_matches('/'))?;
    let name = below.strip_prefix("/clusters/")?.trim_end_matches('/');
    check_name(name).is_ok().then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Users of one cluster of an archive are none of another.
    #[test]
    fn each_cluster_of_an_archive_is_read_by_a_user_of_its_own() {
        let found = Kubeconfig::from_yaml(
            "
current-context: a-prod
clusters:
- {name: prod, cluster: {server: 'https://a:1/x/clusters/prod'}}
- {name: edge, cluster: {server: 'https://a:1/x/clusters/edge/'}}
- {name: test, cluster: {server: 'https://a:1/x/clusters/test'}}
- {name: above, cluster: {server: 'https://a:1/x'}}
- {name: below, cluster: {server: 'https://a:1/x/clusters/prod/clusters/y'}}
- {name: other, cluster: {server: 'https://b:1/x/clusters/other'}}
contexts:
- {name: a-prod, context: {cluster: prod, user: ann}}
- {name: a-edge, context: {cluster: edge, user: ann-of-edge}}
- {name: a-test, context: {cluster: test, user: other}}
- {name: b-test, context: {cluster: test, user: ann}}
- {name: c-test, context: {cluster: test, user: other}}
- {name: a-above, context: {cluster: above, user: ann}}
- {name: a-below, context: {cluster: below, user: ann}}
- {name: a-other, context: {cluster: other, user: ann}}
- {name: dangling, context: {cluster: none, user: ann}}
",
        );
        let found = found.unwrap();
        let of = |selected| {
            let all = contexts_at(&found, "https://a:1/x/", selected).into_iter();
            let all = all.map(|(name, own)| format!("{name} {}", own.unwrap_or_default()));
            all.collect::<Vec<_>>().join(",")
        };
        assert_eq!(of(None), "prod ,edge a-edge,test ");
        assert_eq!(of(Some("a-edge")), "prod a-prod,edge ,test a-test");
        assert!(contexts_at(&found, "https://c:1", None).is_empty());
    }

    #[test]
    fn files_that_are_not_there_say_nothing_and_broken_ones_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, text) in [
            ("one", "current-context: a\n"),
            ("two", "current-context: b\ncontexts:\n- name: b\n"),
            ("empty", ""),
            ("unset", "current-context: \"\"\n"),
            ("broken", "contexts: {\n"),
        ] {
            std::fs::write(path(name), text).unwrap();
        }
        for (names, expected) in [
            (&["missing", "one"] as &[&str], Some(("a", 0))),
            (&["one", "missing", "two"], Some(("a", 1))),
            (&["empty", "two"], Some(("b", 1))),
            (&["unset", "two"], Some(("b", 1))),
            (&["missing"], None),
            (&["empty", "unset"], None),
            (&[], None),
        ] {
            let paths: Vec<PathBuf> = names.iter().map(|name| path(name)).collect();
            let found = merged(&paths).unwrap();
            let found = found
                .as_ref()
                .map(|found| (current_context(found).unwrap(), found.contexts.len()));
            assert_eq!(found, expected, "{names:?}");
        }
        for names in [["broken", "one"], ["one", "broken"]] {
            assert!(merged(&names.map(path)).is_err(), "{names:?}");
        }
        // A folder exists, and cannot be read.
        assert!(merged(&[folder.path().to_owned()]).is_err());
    }

    #[test]
    fn a_text_is_read_whatever_it_is_encoded_in() {
        let text = "current-context: é\n";
        let marked = |mark: [u8; 2], unit: fn(u16) -> [u8; 2]| {
            let units = text.encode_utf16().flat_map(unit);
            mark.into_iter().chain(units).collect::<Vec<u8>>()
        };
        for bytes in [
            text.as_bytes().to_vec(),
            [b"\xEF\xBB\xBF", text.as_bytes()].concat(),
            marked([0xFF, 0xFE], u16::to_le_bytes),
            marked([0xFE, 0xFF], u16::to_be_bytes),
        ] {
            let found = parse(&bytes, Path::new("/")).unwrap();
            assert_eq!(current_context(&found), Some("é"));
        }
        for bytes in [&b"\xFF\xFEa"[..], b"\xFF\xFE\x00\xD8", b"a: \xFF"] {
            assert!(parse(bytes, Path::new("/")).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn no_part_of_a_kubeconfig_is_in_an_error() {
        for text in [
            "users:\n- name: a\n  user: {token: secret, [\n",
            "users:\n- name: a\n  user:\n    token: secret\n    exec: 7\n",
            "users:\n- name: a\n  user:\n    token: 470123470123\n",
            "users:\n- name: a\n  user:\n    client-key-data: secret!\n",
            "users:\n- name: a\n  user: secret\n",
        ] {
            let why = parse(text.as_bytes(), Path::new("/")).unwrap_err();
            assert!(!why.contains("secret") && !why.contains("470123"), "{why}");
            assert!(!why.contains('\n'), "{why}");
        }
    }
}
