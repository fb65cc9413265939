//! A TCP proxy between the archive and its source, which cuts, holds and redirects connections. TLS
//! passes through unchanged.

use std::io;
use std::sync::Arc;

use tidings_testing::free_port;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

const BUFFER: usize = 64 << 10;

#[derive(Clone, Debug)]
struct Mode {
    target: String,
    /// Whether bytes are held back, with the connections kept open.
    is_held: bool,
    /// Counts the cuts. Connections from before the last cut are closed.
    generation: u64,
}

/// A proxy for one source. It ends when this is dropped.
pub(super) struct Proxy {
    pub(super) address: String,
    mode: Arc<watch::Sender<Mode>>,
    accepting: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

impl Proxy {
    pub(super) async fn start(target: &str) -> io::Result<Self> {
        let mode = Arc::new(watch::Sender::new(Mode {
            target: target.to_owned(),
            is_held: false,
            generation: 0,
        }));
        let modes = Arc::clone(&mode);
        let accept = move |stream| connection(stream, modes.subscribe());
        let (address, accepting) = listen(accept).await?;
        Ok(Self {
            address,
            mode,
            accepting,
        })
    }

    /// Closes every connection.
    pub(super) fn cut(&self) {
        self.mode.send_modify(|mode| mode.generation += 1);
    }

    /// Holds all bytes, or lets them pass again.
    pub(super) fn hold(&self, is_held: bool) {
        self.mode.send_modify(|mode| mode.is_held = is_held);
    }

    /// Closes every connection; new ones go to another address.
    pub(super) fn lead_to(&self, target: &str) {
        self.mode.send_modify(|mode| {
            target.clone_into(&mut mode.target);
            mode.generation += 1;
        });
    }
}

/// Listens on a free port. Returns its address, and the task that accepts connections.
pub(super) async fn listen<F: Future<Output: Send> + Send + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + 'static,
) -> io::Result<(String, JoinHandle<()>)> {
    let address = format!("127.0.0.1:{}", free_port());
    let listener = TcpListener::bind(&address).await?;
    let accepting = tokio::spawn(async move {
        loop {
            // An error ends its connection only: both sides may be killed.
            if let Ok((stream, _)) = listener.accept().await {
                let served = serve(stream);
                tokio::spawn(async { drop(served.await) });
            }
        }
    });
    Ok((address, accepting))
}

async fn connection(client: TcpStream, mut mode: watch::Receiver<Mode>) {
    let generation = mode.borrow().generation;
    let passing = pass(client, mode.clone());
    tokio::select! {
        // However it ends, the connections to both sides are closed.
        _ = passing => {}
        _ = mode.wait_for(|mode| mode.generation != generation) => {}
    }
}

async fn pass(client: TcpStream, mut mode: watch::Receiver<Mode>) -> io::Result<()> {
    let target = mode
        .wait_for(|mode| !mode.is_held)
        .await
        .map_err(io::Error::other)?
        .target
        .clone();
    let server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::try_join!(
        pump(from_client, to_server, mode.clone()),
        pump(from_server, to_client, mode)
    )?;
    Ok(())
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut mode: watch::Receiver<Mode>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await?;
        mode.wait_for(|mode| !mode.is_held)
            .await
            .map_err(io::Error::other)?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..read]).await?;
    }
}
