//! A hash of a followed cluster's kubeconfigs and of the files they name, to notice changes. Token
//! files are excluded: the client re-reads them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::commands::kubeconfig;

/// A hash of kubeconfigs and the files they name; it is kept instead of the text, which has keys in
/// it. `None` if no file exists: it may be about to be written.
pub(super) fn hash(files: &[PathBuf]) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let mut is_any_there = false;
    for file in files {
        is_any_there |= hash_file(file, &mut hasher);
    }
    is_any_there.then(|| hasher.finish())
}

/// Hashes a file; returns whether it exists.
fn hash_file(file: &Path, hasher: &mut DefaultHasher) -> bool {
    let text = std::fs::read(file).ok();
    text.hash(hasher);
    let Ok(kubeconfig) = kubeconfig::read(file) else {
        return text.is_some();
    };
    let users = kubeconfig.auth_infos.into_iter();
    let users = users.filter_map(|user| user.auth_info);
    let users = users.flat_map(|user| [user.client_certificate, user.client_key]);
    let clusters = kubeconfig.clusters.into_iter();
    let clusters = clusters.filter_map(|cluster| cluster.cluster?.certificate_authority);
    for named in users.flatten().chain(clusters) {
        std::fs::read(named).ok().hash(hasher);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_changed_by_what_it_names_too() {
        let folder = tempfile::tempdir().unwrap();
        let [config, key, other] = ["config", "key", "other"].map(|name| folder.path().join(name));
        let write = |path: &Path, text: &str| std::fs::write(path, text).unwrap();
        let text = "users:\n- name: a\n  user: {client-key: key}\n";
        write(&config, text);
        write(&key, "one");
        let files = [config, other];
        let mut before = hash(&files);
        let mut is_changed = || {
            let now = hash(&files);
            std::mem::replace(&mut before, now) != now
        };
        assert!(!is_changed());
        write(&files[0], &format!("{text}# another\n"));
        assert!(is_changed());
        assert!(!is_changed());
        write(&key, "another");
        assert!(is_changed());
        // A change of any of the files is noticed.
        write(&files[1], text);
        assert!(is_changed());
        std::fs::remove_file(&files[0]).unwrap();
        assert!(is_changed());
        assert!(!is_changed());
        std::fs::remove_file(&files[1]).unwrap();
        assert_eq!(hash(&files), None);
    }
}
