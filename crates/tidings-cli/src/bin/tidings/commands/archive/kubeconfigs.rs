//! Whether the kubeconfigs of followed clusters say something else than they did: the files, and
//! those that they name. Tokens in files of their own are read again by the client.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;

/// What the files said when they were looked at. Only a hash of it is held: there are keys in it.
#[derive(Debug, Default)]
pub(super) struct Kubeconfigs(HashMap<PathBuf, u64>);

impl Kubeconfigs {
    /// Notes what files say.
    pub(super) fn look(&mut self, files: impl Iterator<Item = PathBuf>) {
        self.0 = files.map(|file| (file.clone(), said(&file))).collect();
    }

    /// Whether a file that was looked at says something else, and is there.
    pub(super) fn is_changed(&self, file: &Path) -> bool {
        let before = self.0.get(file);
        file.exists() && before.is_some_and(|before| *before != said(file))
    }
}

/// A hash of what a kubeconfig says, and of the files it names.
fn said(file: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    std::fs::read(file).ok().hash(&mut hasher);
    let Ok(kubeconfig) = Kubeconfig::read_from(file) else {
        return hasher.finish();
    };
    let users = kubeconfig.auth_infos.into_iter();
    let users = users.filter_map(|user| user.auth_info);
    let users = users.flat_map(|user| [user.client_certificate, user.client_key]);
    let clusters = kubeconfig.clusters.into_iter();
    let clusters = clusters.filter_map(|cluster| cluster.cluster?.certificate_authority);
    for named in users.flatten().chain(clusters) {
        std::fs::read(named).ok().hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_changed_by_what_it_names_too() {
        let folder = tempfile::tempdir().unwrap();
        let [config, key] = ["config", "key"].map(|name| folder.path().join(name));
        let write = |path: &Path, text: &str| std::fs::write(path, text).unwrap();
        let text = "users:\n- name: a\n  user: {client-key: key}\n";
        write(&config, text);
        write(&key, "one");
        let mut found = Kubeconfigs::default();
        let look = |found: &mut Kubeconfigs| {
            let is_changed = found.is_changed(&config);
            found.look(std::iter::once(config.clone()));
            is_changed
        };
        assert!(!look(&mut found), "it was not looked at before");
        assert!(!look(&mut found));
        write(&config, &format!("{text}# another\n"));
        assert!(look(&mut found));
        assert!(!look(&mut found));
        write(&key, "another");
        assert!(look(&mut found));
        std::fs::remove_file(&config).unwrap();
        assert!(!look(&mut found), "one that is away is about to be written");
    }
}
