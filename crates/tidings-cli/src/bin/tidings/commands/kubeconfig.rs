//! The kubeconfigs that are read where none is named, by kubectl's rules (clientcmd's
//! `ClientConfigLoadingRules`).
//!
//! Invariant: a file that is not there says nothing, and one that cannot be read is an error. It
//! might have named another cluster than the next best.

use std::io::ErrorKind;
use std::path::PathBuf;

use kube::config::{Kubeconfig, KubeconfigError};

/// The kubeconfigs that are read where none is named, the first one first.
pub(crate) fn of_environment() -> Vec<PathBuf> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<PathBuf> = std::env::split_paths(&listed)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    if !listed.is_empty() {
        return listed;
    }
    let home = std::env::home_dir();
    home.into_iter()
        .map(|home| home.join(".kube").join("config"))
        .collect()
}

/// What those that are there say together; `None` if that is nothing.
///
/// # Errors
/// One cannot be read, or is no kubeconfig.
pub(crate) fn merged(paths: &[PathBuf]) -> Result<Option<Kubeconfig>, KubeconfigError> {
    let mut merged = Kubeconfig::default();
    for path in paths {
        match Kubeconfig::read_from(path) {
            Ok(mut next) => {
                // kubectl leaves an empty one behind, which does not count.
                next.current_context.take_if(|name| name.is_empty());
                merged = merged.merge(next)?;
            }
            Err(KubeconfigError::ReadConfig(error, _)) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(merged).filter(|merged| !is_empty(merged)))
}

/// Whether it names nothing.
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

/// The name of the user of a context, or of the current one, if it has one.
pub(crate) fn user<'a>(kubeconfig: &'a Kubeconfig, context: Option<&'a str>) -> Option<&'a str> {
    let name = context.or(current_context(kubeconfig))?;
    let mut contexts = kubeconfig.contexts.iter();
    let found = contexts.find(|context| context.name == name)?;
    let user = found.context.as_ref()?.user.as_deref();
    user.filter(|user| !user.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // A folder is there, and cannot be read.
        assert!(merged(&[folder.path().to_owned()]).is_err());
    }
}
