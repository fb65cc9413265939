//! Emulators of cloud storages in processes of their own, on the loopback interface: Azurite, and a
//! fake-gcs-server that also accepts writes through Google's XML API. Their content is lost when
//! they end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use crate::process::Process;
use crate::programs;

/// The provider whose storage is emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cloud {
    /// Microsoft's.
    Azure,
    /// Google's.
    Google,
}

/// The account that exists in every Azurite.
const ACCOUNT: &str = "devstoreaccount1";
/// The key of that account, which is public.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
/// A signature with this key. It permits everything with containers until 2100.
const SIGNATURE: &str = "sv=2020-12-06&ss=b&srt=sco&sp=rwdlac&se=2100-01-01T00%3A00%3A00Z&spr=https%2Chttp&sig=%2FwCwCLYOlQLWQCSHgqYgXFVwn6kFpKWTNtdXFFHwbeI%3D";
/// The token that is sent to Google's emulator, which does not check it.
const TOKEN: &str = "of-this-test-only";

/// A running emulator on a free port. It ends when it is dropped.
#[derive(Debug)]
pub struct Emulator {
    cloud: Cloud,
    endpoint: String,
    buckets: AtomicUsize,
    _process: Process,
    /// A folder for the emulator's files.
    _folder: TempDir,
}

impl Emulator {
    /// Starts an emulator, and waits until it listens; `None` if its program is not on this
    /// machine.
    pub fn start(cloud: Cloud) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let program = match cloud {
            Cloud::Azure => programs::azurite()?,
            Cloud::Google => programs::fake_gcs()?,
        };
        let mut command = Command::new(program);
        if cloud == Cloud::Azure {
            command.args(["--blobHost", "127.0.0.1", "--blobPort", "0"]);
            command.args(["--inMemoryPersistence", "--silent", "--disableTelemetry"]);
        }
        command.current_dir(folder.path()).stdin(Stdio::null());
        // Both print their address once they listen. Azurite prints another line before that.
        let (process, line) = Process::start_and_hear_of(&mut command, "http://").unwrap();
        let at = line.find("http://");
        let endpoint = &line[at.expect("it says where it listens")..];
        Some(Self {
            cloud,
            endpoint: endpoint.to_owned(),
            buckets: AtomicUsize::new(0),
            _process: process,
            _folder: folder,
        })
    }

    /// Creates a bucket, which Azure calls a container, and returns its name.
    pub fn bucket(&self) -> String {
        let number = self.buckets.fetch_add(1, Ordering::Relaxed);
        let name = format!("events-{number}");
        let (method, path, body) = match self.cloud {
            Cloud::Azure => {
                let path = format!("/{ACCOUNT}/{name}?restype=container&{SIGNATURE}");
                ("PUT", path, String::new())
            }
            Cloud::Google => {
                let body = format!(r#"{{"name": "{name}"}}"#);
                ("POST", "/storage/v1/b?project=test".to_owned(), body)
            }
        };
        let address = self.endpoint.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).unwrap();
        let bytes = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
            Content-Type: application/json\r\nContent-Length: {bytes}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
        name
    }

    /// The scheme of its buckets' URLs.
    pub fn scheme(&self) -> &'static str {
        match self.cloud {
            Cloud::Azure => "az",
            Cloud::Google => "gs",
        }
    }

    /// The environment variables that a client needs.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let endpoint = &self.endpoint;
        match self.cloud {
            Cloud::Azure => vec![
                ("AZURE_STORAGE_ENDPOINT", format!("{endpoint}/{ACCOUNT}")),
                ("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT.to_owned()),
                ("AZURE_STORAGE_ACCOUNT_KEY", KEY.to_owned()),
                ("AZURE_ALLOW_HTTP", "true".to_owned()),
            ],
            Cloud::Google => vec![
                ("GOOGLE_BASE_URL", endpoint.clone()),
                ("GOOGLE_BEARER_TOKEN", TOKEN.to_owned()),
                ("GOOGLE_ALLOW_HTTP", "true".to_owned()),
            ],
        }
    }
}
