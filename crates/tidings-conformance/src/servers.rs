//! The judged programs and their references: each is started on a free loopback port with its own
//! folder, and ends when its value is dropped.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tidings_testing::free_port;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::http::{Client, HttpError};

/// Maximum time until a server is ready, for slow machines.
const PATIENCE: Duration = Duration::from_secs(180);
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

/// The users of every server: two with all permissions, and two without any.
pub(crate) const TOKENS: &str = "admin-token,admin,1,\"system:masters\"\nneighbour-token,neighbour,4,\"system:masters\"\nann-token,ann,2,\"developers\"\nfollower-token,follower,3\n";

/// The folder of kube-apiserver's keys, and its certificate.
pub(crate) const KUBE_CERTIFICATES: &str = "certificates";
pub(crate) const KUBE_CERTIFICATE: &str = "apiserver.crt";

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum StartError {
    #[error("could not run {program}: {source}")]
    Run {
        program: PathBuf,
        source: std::io::Error,
    },
    #[error("{program} ended or was not ready in {} s; it said: {last}", PATIENCE.as_secs())]
    NotReady { program: PathBuf, last: String },
    #[error("{0}")]
    Files(#[from] std::io::Error),
    #[error("a key for service accounts: {0}")]
    Key(#[from] rcgen::Error),
    #[error(transparent)]
    Http(#[from] HttpError),
}

/// A running Kubernetes API server.
pub(crate) struct ApiServer {
    pub(crate) client: Client,
    /// A kubeconfig for kubectl, with a user who may do everything.
    pub(crate) kubeconfig: PathBuf,
    /// The kubeconfig that tidings wrote itself.
    pub(crate) own_kubeconfig: Option<PathBuf>,
    // The process ends and the folder is removed when this is dropped.
    process: Child,
    _folder: TempDir,
}

/// Runs kube-apiserver with an etcd of its own until standard input ends. Prints their addresses
/// when they are ready.
pub(crate) async fn keep(
    kube_apiserver: &Path,
    etcd: &Path,
    out: &mut impl Write,
) -> Result<bool, StartError> {
    let etcd = Etcd::start(etcd)?;
    let server = ApiServer::start_kube(kube_apiserver, &etcd, &[]).await?;
    let said = serde_json::json!({
        "kubeconfig": server.kubeconfig,
        "processes": [server.process.id(), etcd.process.id()],
    });
    writeln!(out, "{said}")?;
    out.flush()?;
    // Standard input is not read with tokio, whose read of it cannot be cancelled. Nothing else has
    // to be done meanwhile.
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())?;
    Ok(true)
}

/// A running etcd.
pub(crate) struct Etcd {
    pub(crate) url: String,
    process: Child,
    _folder: TempDir,
}

impl Etcd {
    pub(crate) fn start(program: &Path) -> Result<Self, StartError> {
        let folder = tempfile::tempdir()?;
        let [url, peers] =
            [free_port(), free_port()].map(|port| format!("http://127.0.0.1:{port}"));
        let process = spawn(
            program,
            Command::new(program)
                .arg("--data-dir")
                .arg(folder.path())
                .args([
                    "--listen-client-urls",
                    &url,
                    "--advertise-client-urls",
                    &url,
                ])
                .args([
                    "--listen-peer-urls",
                    &peers,
                    "--initial-advertise-peer-urls",
                    &peers,
                ])
                .arg(format!("--initial-cluster=default={peers}"))
                .stderr(Stdio::null()),
        )?;
        Ok(Self {
            url,
            process,
            _folder: folder,
        })
    }
}

/// Writes the files that kube-apiserver needs into its folder. Returns the arguments that name
/// them.
pub(crate) fn kube_arguments(
    place: &Path,
    etcd: &str,
    port: u16,
) -> Result<Vec<String>, StartError> {
    let key = rcgen::KeyPair::generate()?;
    std::fs::write(place.join("accounts.key"), key.serialize_pem())?;
    std::fs::write(place.join("accounts.pub"), key.public_key_pem())?;
    std::fs::write(place.join("tokens.csv"), TOKENS)?;
    let port = port.to_string();
    let arguments = [
        ["--etcd-servers", etcd],
        ["--secure-port", &port],
        ["--bind-address", "127.0.0.1"],
        ["--cert-dir", KUBE_CERTIFICATES],
        ["--token-auth-file", "tokens.csv"],
        ["--authorization-mode", "RBAC"],
        ["--service-account-issuer", "https://kubernetes.default.svc"],
        ["--service-account-key-file", "accounts.pub"],
        ["--service-account-signing-key-file", "accounts.key"],
        ["--service-cluster-ip-range", "10.0.0.0/24"],
    ];
    let own = arguments.into_iter().flatten();
    let own = own.chain(["--anonymous-auth=false"]);
    Ok(own.map(str::to_owned).collect())
}

impl ApiServer {
    /// The number of the server's process, while it runs.
    pub(crate) fn process(&self) -> Option<u32> {
        self.process.id()
    }

    /// Starts kube-apiserver on an etcd with further arguments and waits until it is ready.
    pub(crate) async fn start_kube(
        program: &Path,
        etcd: &Etcd,
        arguments: &[&str],
    ) -> Result<Self, StartError> {
        let folder = tempfile::tempdir()?;
        let place = folder.path();
        let port = free_port();
        let own = kube_arguments(place, &etcd.url, port)?;
        let log = std::fs::File::create(place.join("log"))?;
        let mut process = spawn(
            program,
            Command::new(program)
                .current_dir(place)
                .args(own)
                .args(arguments)
                .stderr(log),
        )?;
        let certificate = place.join(KUBE_CERTIFICATES).join(KUBE_CERTIFICATE);
        let address = format!("127.0.0.1:{port}");
        let started = async {
            loop {
                if process.try_wait()?.is_some() {
                    return Ok::<_, StartError>(None);
                }
                if let Ok(trusted) = std::fs::read(&certificate)
                    && let Ok(client) = Client::new(&address, &trusted)
                    && client.is_ready().await
                {
                    return Ok(Some(client));
                }
                tokio::time::sleep(BETWEEN_TRIES).await;
            }
        };
        let started = tokio::time::timeout(PATIENCE, started).await;
        let Some(client) = started.ok().transpose()?.flatten() else {
            let log = std::fs::read_to_string(place.join("log")).unwrap_or_default();
            return Err(StartError::NotReady {
                program: program.to_owned(),
                last: log.lines().last().unwrap_or("nothing").to_owned(),
            });
        };
        Ok(Self {
            kubeconfig: write_kubeconfig(place, &address, &certificate)?,
            own_kubeconfig: None,
            client,
            process,
            _folder: folder,
        })
    }

    /// Starts `tidings serve` with further arguments and waits until it is ready.
    pub(crate) async fn start_tidings(
        program: &Path,
        arguments: &[&str],
    ) -> Result<Self, StartError> {
        Self::start_ours(program, "serve", arguments, true).await
    }

    /// Starts a `tidings archive` that mirrors a server, and waits until it is ready. The
    /// kubeconfig has the address of the mirrored cluster, the client that of the archive itself.
    pub(crate) async fn start_archive(program: &Path, source: &Self) -> Result<Self, StartError> {
        let clusters = mirrored(source, &["judge"])?;
        Self::start_ours(program, "archive", &["--clusters", &clusters], true).await
    }

    /// Starts an archive that mirrors a server, and seals what it observes only after a day, so
    /// that it waits during the test.
    pub(crate) async fn start_sealing(program: &Path, source: &Self) -> Result<Self, StartError> {
        let clusters = mirrored(source, &["judge"])?;
        let objects = source.kubeconfig.with_file_name("objects");
        let objects = format!("file://{}", objects.display());
        let arguments = [
            "--clusters",
            &clusters,
            "--objects",
            &objects,
            "--seal-after=24h",
        ];
        Self::start_ours(program, "archive", &arguments, true).await
    }

    /// Starts an archive that follows one source as two clusters.
    pub(crate) async fn start_archive_twice(
        program: &Path,
        source: &Self,
    ) -> Result<Self, StartError> {
        let clusters = mirrored(source, &["judge", "again"])?;
        Self::start_ours(program, "archive", &["--clusters", &clusters], true).await
    }

    /// Starts an archive that asks the followed cluster about users and permissions, and passes
    /// everything except events to it.
    pub(crate) async fn start_passing(program: &Path, source: &Self) -> Result<Self, StartError> {
        let kubeconfig = source.kubeconfig.display().to_string();
        let access = ["--cluster-access", "--pass-through"];
        let arguments = ["--kubeconfig", &kubeconfig, access[0], access[1]];
        Self::start_ours(program, "archive", &arguments, false).await
    }

    async fn start_ours(
        program: &Path,
        verb: &str,
        arguments: &[&str],
        has_tokens: bool,
    ) -> Result<Self, StartError> {
        let folder = tempfile::tempdir()?;
        let place = folder.path();
        let tokens = place.join("tokens.csv");
        std::fs::write(&tokens, TOKENS)?;
        let tokens = tokens.to_string_lossy();
        let tokens = ["--token-auth-file", &tokens];
        let data = place.join("data");
        let log = std::fs::File::create(place.join("log"))?;
        let mut process = spawn(
            program,
            Command::new(program)
                .args([verb, "--secure-port", "0", "--data-dir"])
                .arg(&data)
                .args(tokens.iter().filter(|_| has_tokens))
                .args(arguments)
                .stdout(Stdio::piped())
                .stderr(log),
        )?;
        // The server prints the path of its kubeconfig when it is ready.
        let mut line = String::new();
        if let Some(output) = process.stdout.take() {
            let mut output = BufReader::new(output);
            let read = output.read_line(&mut line);
            let _ = tokio::time::timeout(PATIENCE, read).await;
        }
        let own = std::fs::read_to_string(line.trim()).unwrap_or_default();
        let Some(address) = own
            .lines()
            .find_map(|line| line.split_once("server: https://"))
            .map(|(_, address)| address.trim().trim_matches('"').to_owned())
        else {
            let log = std::fs::read_to_string(place.join("log")).unwrap_or_default();
            return Err(StartError::NotReady {
                program: program.to_owned(),
                last: log.lines().last().unwrap_or("nothing").to_owned(),
            });
        };
        let certificate = data.join("pki/ca.crt");
        let root = address.split('/').next().unwrap_or_default();
        Ok(Self {
            client: Client::new(root, &std::fs::read(&certificate)?)?,
            kubeconfig: write_kubeconfig(place, &address, &certificate)?,
            own_kubeconfig: Some(PathBuf::from(line.trim())),
            process,
            _folder: folder,
        })
    }
}

fn spawn(program: &Path, command: &mut Command) -> Result<Child, StartError> {
    command
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|source| StartError::Run {
            program: program.to_owned(),
            source,
        })
}

fn write_kubeconfig(place: &Path, address: &str, certificate: &Path) -> std::io::Result<PathBuf> {
    let path = place.join("kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: judge\n\
         contexts: [{{name: judge, context: {{cluster: judge, user: admin}}}}]\n\
         users: [{{name: admin, user: {{token: admin-token}}}}]\n\
         clusters:\n- name: judge\n  cluster: {{server: 'https://{address}', certificate-authority: '{}'}}\n",
        certificate.display(),
    );
    std::fs::write(&path, text)?;
    Ok(path)
}

/// Writes a file of clusters in which an archive mirrors one source under several names. Returns
/// its path.
fn mirrored(source: &ApiServer, names: &[&str]) -> Result<String, StartError> {
    let kubeconfig = source.kubeconfig.display();
    let clusters = names.iter().map(|name| {
        format!("  - {{name: {name}, kubeconfig: {kubeconfig}, mirrorDeletions: true}}\n")
    });
    let file = source.kubeconfig.with_file_name("mirrored.yaml");
    std::fs::write(
        &file,
        format!("clusters:\n{}", clusters.collect::<String>()),
    )?;
    Ok(file.display().to_string())
}
