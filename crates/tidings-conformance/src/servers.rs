//! The judged servers and their references. Each runs on a free loopback port in a folder, and ends
//! when its value is dropped.

use std::io::Write;
use std::path::{Path, PathBuf};

use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_testing::free_port;

use crate::error::{Result, fail};
use crate::http::Client;
use crate::process::Program;

/// The users of every server: two with all permissions, and two without any.
const TOKENS: &str = "admin-token,admin,1,\"system:masters\"\nneighbour-token,neighbour,4,\"system:masters\"\nann-token,ann,2,\"developers\"\nfollower-token,follower,3\n";

/// The folder of kube-apiserver's keys.
pub(crate) const KUBE_CERTIFICATES: &str = "certificates";

/// Runs kube-apiserver with an etcd of its own until standard input ends. Prints their addresses
/// when they are ready.
pub(crate) async fn keep(kube_apiserver: &Path, etcd: &Path, out: &mut impl Write) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let etcd = Etcd::start(etcd, folder.path()).await?;
    let server = ApiServer::kube(kube_apiserver, &etcd, None, &[]).await?;
    let said = json!({
        "kubeconfig": server.kubeconfig,
        "processes": [server.program.id(), etcd.program.id()],
    });
    writeln!(out, "{said}")?;
    out.flush()?;
    // Standard input is not read with tokio, whose read of it cannot be cancelled. Nothing else has
    // to be done meanwhile.
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())?;
    Ok(true)
}

/// An etcd that can be killed and started again.
pub(crate) struct Etcd {
    pub(crate) program: Program,
    pub(crate) url: String,
    pub(crate) data: PathBuf,
    client: Client,
}

impl Etcd {
    /// Starts an etcd in a folder, and waits until it answers.
    pub(crate) async fn start(program: &Path, folder: &Path) -> Result<Self> {
        let data = folder.join("etcd");
        let [address, peers] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        let (url, peers) = (format!("http://{address}"), format!("http://{peers}"));
        let arguments = [
            format!("--data-dir={}", data.display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--initial-cluster=default={peers}"),
        ];
        let mut etcd = Self {
            program: Program::new(program, arguments, folder, "etcd"),
            url,
            data,
            client: Client::plain(&address),
        };
        etcd.be_ready().await?;
        Ok(etcd)
    }

    /// Starts etcd if it does not run, and waits until it answers.
    pub(crate) async fn be_ready(&mut self) -> Result<()> {
        self.program.be_started().await?;
        let client = &self.client;
        let status = async || {
            let path = "/v3/maintenance/status";
            let reply = client.call(Method::POST, path, "", "{}").await;
            reply.ok().filter(|reply| reply.status.is_success())
        };
        self.program.until(status).await.map(drop)
    }

    /// Calls a method of etcd's JSON gateway.
    pub(crate) async fn call(&self, method: &str, body: &Value) -> Result<Value> {
        let (path, body) = (format!("/v3/{method}"), body.to_string());
        let reply = self
            .client
            .call(Method::POST, &path, "application/json", body);
        reply.await?.success(&format!("etcd's {method}"))
    }

    /// Compacts the history before a revision.
    pub(crate) async fn compact(&self, revision: &Value) -> Result<()> {
        let body = json!({"revision": revision, "physical": true});
        self.call("kv/compaction", &body).await.map(drop)
    }

    /// Copies the data, while etcd is stopped: nothing is written meanwhile.
    pub(crate) async fn back_up(&mut self) -> Result<()> {
        self.program.kill().await?;
        tidings_testing::copy_folder(&self.data, &self.data.with_extension("backup"));
        Ok(())
    }

    /// Stops etcd, and gives it the copied data again.
    pub(crate) async fn restore(&mut self) -> Result<()> {
        self.program.kill().await?;
        std::fs::remove_dir_all(&self.data)?;
        tidings_testing::copy_folder(&self.data.with_extension("backup"), &self.data);
        Ok(())
    }
}

/// A Kubernetes API server that can be killed and started again.
pub(crate) struct ApiServer {
    pub(crate) program: Program,
    pub(crate) client: Client,
    pub(crate) address: String,
    pub(crate) certificate: PathBuf,
    /// A kubeconfig for kubectl, with a user who may do everything. That of an archive has the
    /// address of its first cluster.
    pub(crate) kubeconfig: PathBuf,
    /// The kubeconfig that tidings wrote itself.
    pub(crate) own_kubeconfig: PathBuf,
    // The folder is removed after the process ended.
    _folder: Option<TempDir>,
}

impl ApiServer {
    /// Starts kube-apiserver on an etcd with further arguments, in a folder or in one of its own,
    /// and waits until it is ready.
    pub(crate) async fn kube(
        file: &Path,
        etcd: &Etcd,
        folder: Option<&Path>,
        more: &[&str],
    ) -> Result<Self> {
        let own = folder.is_none().then(tempfile::tempdir).transpose()?;
        let place = folder.or(own.as_ref().map(TempDir::path)).unwrap_or(file);
        let key = rcgen::KeyPair::generate()?;
        std::fs::write(place.join("accounts.key"), key.serialize_pem())?;
        std::fs::write(place.join("accounts.pub"), key.public_key_pem())?;
        std::fs::write(place.join("tokens.csv"), TOKENS)?;
        let port = free_port();
        let ports = [
            format!("--etcd-servers={}", etcd.url),
            format!("--secure-port={port}"),
        ];
        let arguments = [
            "--bind-address=127.0.0.1",
            "--cert-dir=certificates",
            "--token-auth-file=tokens.csv",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=accounts.pub",
            "--service-account-signing-key-file=accounts.key",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--anonymous-auth=false",
        ];
        let arguments = arguments.iter().chain(more).map(ToString::to_string);
        let arguments = arguments.chain(ports);
        let mut program = Program::new(file, arguments, place, "kube-apiserver");
        program.start()?;
        let certificate = place.join(KUBE_CERTIFICATES).join("apiserver.crt");
        let address = format!("127.0.0.1:{port}");
        Ok(Self {
            client: program.ready(&address, &certificate).await?,
            program,
            kubeconfig: write_kubeconfig(place, "kube", &address, &certificate)?,
            own_kubeconfig: PathBuf::new(),
            address,
            certificate,
            _folder: own,
        })
    }

    /// Starts `tidings serve` with further arguments and waits until it is ready.
    pub(crate) async fn tidings(program: &Path, more: &[&str]) -> Result<Self> {
        Self::ours(program, "serve", None, more).await
    }

    /// Starts `tidings serve` or `tidings archive` with further arguments, in a folder or in one of
    /// its own, and waits until it is ready.
    pub(crate) async fn ours(
        file: &Path,
        verb: &str,
        folder: Option<&Path>,
        more: &[&str],
    ) -> Result<Self> {
        let own = folder.is_none().then(tempfile::tempdir).transpose()?;
        let place = folder.or(own.as_ref().map(TempDir::path)).unwrap_or(file);
        let (tokens, data) = (place.join(format!("{verb}.csv")), place.join(verb));
        let port = free_port();
        let mut arguments = vec![
            verb.to_owned(),
            format!("--secure-port={port}"),
            format!("--data-dir={}", data.display()),
        ];
        // An archive that asks the cluster about users knows none itself.
        if !more.contains(&"--cluster-access") {
            std::fs::write(&tokens, TOKENS)?;
            arguments.push(format!("--token-auth-file={}", tokens.display()));
        }
        arguments.extend(more.iter().copied().map(str::to_owned));
        let mut program = Program::new(file, arguments, place, verb);
        program.start()?;
        // The server prints the path of its kubeconfig when it is ready.
        let own_kubeconfig = PathBuf::from(program.line().await?);
        let text = std::fs::read_to_string(&own_kubeconfig)?;
        let mut addresses = text
            .lines()
            .filter_map(|line| line.split_once("server: https://"));
        let root = format!("127.0.0.1:{port}");
        let Some((_, address)) = addresses.next() else {
            return fail(format!("the kubeconfig of tidings {verb} names no server"));
        };
        let address = address.trim().trim_matches('"');
        let certificate = data.join("pki/ca.crt");
        let kubeconfig = write_kubeconfig(place, verb, address, &certificate)?;
        Ok(Self {
            client: Client::new(&root, &std::fs::read(&certificate)?)?,
            kubeconfig,
            own_kubeconfig,
            program,
            address: root,
            certificate,
            _folder: own,
        })
    }

    /// Starts an archive that mirrors a server under these names, with further arguments.
    pub(crate) async fn mirror(
        program: &Path,
        source: &Self,
        names: &[&str],
        more: &[&str],
    ) -> Result<Self> {
        let kubeconfig = source.kubeconfig.display();
        let clusters = names.iter().map(|name| {
            format!("  - {{name: {name}, kubeconfig: {kubeconfig}, mirrorDeletions: true}}\n")
        });
        let file = source.kubeconfig.with_file_name("mirrored.yaml");
        let text = format!("clusters:\n{}", clusters.collect::<String>());
        std::fs::write(&file, text)?;
        let file = file.to_string_lossy();
        let mut arguments = vec!["--clusters", &*file];
        arguments.extend(more);
        Self::ours(program, "archive", None, &arguments).await
    }

    /// Starts the server if it does not run, and waits until it is ready.
    pub(crate) async fn be_ready(&mut self) -> Result<()> {
        self.program.be_started().await?;
        let ready = self.program.ready(&self.address, &self.certificate);
        ready.await.map(drop)
    }
}

/// A cluster that is followed or asked.
pub(crate) struct Followed<'a> {
    pub(crate) name: &'a str,
    pub(crate) address: &'a str,
    pub(crate) trusted: &'a Path,
    /// The token with which the cluster is followed.
    pub(crate) token: &'a str,
}

impl Followed<'_> {
    /// Writes a kubeconfig of these clusters. The first one is the current context.
    pub(crate) fn write(all: &[Self], path: &Path) -> std::io::Result<()> {
        let list = |item: &dyn Fn(&Self) -> Value| all.iter().map(item).collect::<Vec<_>>();
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": all.first().map(|it| it.name),
            "contexts": list(&|it| {
                json!({"name": it.name, "context": {"cluster": it.name, "user": it.name}})
            }),
            "users": list(&|it| json!({"name": it.name, "user": {"token": it.token}})),
            "clusters": list(&|it| {
                let server = format!("https://{}", it.address);
                let cluster = json!({"server": server, "certificate-authority": it.trusted});
                json!({"name": it.name, "cluster": cluster})
            }),
        });
        std::fs::write(path, kubeconfig.to_string())
    }
}

fn write_kubeconfig(place: &Path, name: &str, address: &str, trusted: &Path) -> Result<PathBuf> {
    let path = place.join(format!("{name}.yaml"));
    let (name, token) = ("judge", "admin-token");
    let judge = Followed {
        name,
        address,
        trusted,
        token,
    };
    Followed::write(&[judge], &path)?;
    Ok(path)
}
