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
        let address = format!("127.0.0.1:{}", free_port());
        let listener = TcpListener::bind(&address).await?;
        let mode = Arc::new(watch::Sender::new(Mode {
            target: target.to_owned(),
            is_held: false,
            generation: 0,
        }));
        let accepting = tokio::spawn(accept(listener, Arc::clone(&mode)));
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

async fn accept(listener: TcpListener, mode: Arc<watch::Sender<Mode>>) {
    // An error ends its connection only, and not the proxy.
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream, mode.subscribe()));
        }
    }
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
