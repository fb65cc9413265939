//! The flags of the storage: the data folder, or etcd by kube-apiserver's flags.

use std::path::PathBuf;
use std::time::Duration;

use tidings_server::Storage;
use tidings_store::etcd::{EtcdOptions, TlsFiles};

use tidings_cli::times::duration;

/// The store of events.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Events in etcd")]
#[expect(
    clippy::struct_field_names,
    reason = "the flags have kube-apiserver's names"
)]
pub(super) struct StorageFlags {
    /// URLs of etcd's members, separated by commas. Events are then stored in etcd, in
    /// kube-apiserver's layout, and the data folder holds only certificates, tokens and the
    /// kubeconfig
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    etcd_servers: Vec<String>,
    /// Certificate authorities for etcd's certificate, in PEM. Without it the system's authorities
    /// are trusted
    #[arg(long, value_name = "FILE")]
    etcd_cafile: Option<PathBuf>,
    /// Client certificate for etcd, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    etcd_certfile: Option<PathBuf>,
    /// Private key of --etcd-certfile, in PEM
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    etcd_keyfile: Option<PathBuf>,
    /// Prefix of all keys in etcd
    #[arg(long, value_name = "PATH", default_value = "/registry")]
    etcd_prefix: String,
    /// Interval at which old revisions in etcd are compacted, coordinated with every kube-apiserver
    /// that uses it. 0 means no compaction
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    etcd_compaction_interval: Duration,
}

/// Why the flags define no usable storage.
#[derive(Debug, thiserror::Error)]
pub(super) enum StorageError {
    #[error("--{0} is given, but --etcd-servers is not")]
    NoServers(&'static str),
}

impl StorageFlags {
    /// The storage that the flags define.
    pub(super) fn storage(self) -> Result<Storage, StorageError> {
        let files = [
            ("etcd-cafile", &self.etcd_cafile),
            ("etcd-certfile", &self.etcd_certfile),
        ];
        if self.etcd_servers.is_empty() {
            return match files.iter().find(|(_, file)| file.is_some()) {
                Some((name, _)) => Err(StorageError::NoServers(name)),
                None => Ok(Storage::default()),
            };
        }
        let mut options = EtcdOptions::new(self.etcd_servers);
        options.prefix = format!("/{}/events/", self.etcd_prefix.trim_matches('/'));
        if options.prefix.starts_with("//") {
            options.prefix.remove(0);
        }
        if self.etcd_cafile.is_some() || self.etcd_certfile.is_some() {
            options.tls = Some(TlsFiles {
                ca_file: self.etcd_cafile,
                cert_file: self.etcd_certfile,
                key_file: self.etcd_keyfile,
            });
        }
        options.compaction_interval =
            Some(self.etcd_compaction_interval).filter(|every| !every.is_zero());
        Ok(Storage::Etcd(options))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        storage: StorageFlags,
    }

    fn storage(args: &[&str]) -> Result<String, String> {
        let args = ["serve"].iter().chain(args);
        let flags = Flags::try_parse_from(args).map_err(|error| error.to_string())?;
        match flags.storage.storage() {
            Ok(Storage::Etcd(options)) => Ok(format!(
                "{} {} {:?}",
                options.endpoints.join(" "),
                options.prefix,
                options.compaction_interval
            )),
            Ok(Storage::Embedded(_)) => Ok("embedded".into()),
            Ok(_) => Err("another".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn kube_apiserver_s_flags_are_understood() {
        let five_minutes = "Some(300s)";
        for (args, expected) in [
            (&[][..], "embedded".to_owned()),
            (
                &["--etcd-servers", "http://a:1,http://b:2"],
                format!("http://a:1 http://b:2 /registry/events/ {five_minutes}"),
            ),
            (
                &[
                    "--etcd-servers=http://a:1",
                    "--etcd-prefix=kubernetes.io/",
                    "--etcd-compaction-interval=0",
                ],
                "http://a:1 /kubernetes.io/events/ None".to_owned(),
            ),
            (
                &["--etcd-servers=https://a:1"],
                format!("https://a:1 /registry/events/ {five_minutes}"),
            ),
            (
                &["--etcd-servers=http://a:1", "--etcd-prefix=/"],
                format!("http://a:1 /events/ {five_minutes}"),
            ),
        ] {
            assert_eq!(storage(args), Ok(expected), "{args:?}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (args, said) in [
            (&["--etcd-cafile=ca.pem"][..], "--etcd-servers is not"),
            (
                &["--etcd-servers=http://a:1", "--etcd-certfile=c"],
                "--etcd-keyfile",
            ),
            (
                &[
                    "--etcd-servers=http://a:1",
                    "--etcd-compaction-interval=often",
                ],
                "such as 1h30m",
            ),
        ] {
            let error = storage(args).unwrap_err();
            assert!(error.contains(said), "{args:?}: {error}");
        }
    }
}
