//! A lingering close of HTTP/1.1 connections, in stages (RFC 9112, section 9.6).
//!
//! A request may be refused before it was read completely: its head or body is too long, or it has
//! no credentials. If a socket is closed while the client still sends, the client gets a reset and
//! may never see the refusal. So the server closes its writing side first, then reads and drops the
//! rest until the client closes its side, or a limit is reached.
//!
//! Invariants:
//! - A connection whose requests were all read completely is closed at once.
//! - No connection is open for longer than [`TIME_MAX`] after its writing side is closed.
//! - Dropped bytes are not decrypted, and are at most [`BYTES_MAX`].

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;

use crate::clock;
use crate::start::intake::Intake;

/// Time for a client to send the rest, read the answer and close its side; `rstAvoidanceDelay` of
/// Go's net/http.
const TIME_MAX: Duration = Duration::from_millis(500);
/// Maximum dropped bytes: the longest head that any server accepts. The rest stays unread, but the
/// client still has the time to read the answer.
const BYTES_MAX: usize = 1024 * 1024;
/// Bytes read and dropped at a time.
const PIECE: usize = 16 * 1024;

/// A connection that lingers before it closes if a request was not read completely.
pub(super) struct Lingering<IO> {
    stream: TlsStream<IO>,
    intake: Intake,
    closing: Closing,
}

enum Closing {
    No,
    Lingers(Linger),
    Done,
}

impl<IO> Lingering<IO> {
    /// Makes a connection; `intake` counts the bytes received here and those passed to requests.
    pub(super) fn new(stream: TlsStream<IO>, intake: Intake) -> Self {
        Self {
            stream,
            intake,
            closing: Closing::No,
        }
    }
}

/// The state of a lingering close.
struct Linger {
    end: Pin<Box<Sleep>>,
    bytes: usize,
}

impl Linger {
    fn begin() -> Self {
        let end = clock::deadline(clock::timer(), TIME_MAX);
        Self {
            end: Box::pin(tokio::time::sleep_until(end)),
            bytes: BYTES_MAX,
        }
    }

    /// Ready at the end of the input, or at the deadline.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        input: &mut (impl AsyncRead + Unpin),
    ) -> Poll<()> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        while self.bytes > 0 {
            let dropped = ready!(poll_drop(context, input, self.bytes));
            if dropped == 0 {
                return Poll::Ready(());
            }
            self.bytes -= dropped;
        }
        Poll::Pending
    }
}

/// Reads at most `most` bytes and drops them; returns their number, 0 at the end or on an error.
fn poll_drop(
    context: &mut Context<'_>,
    input: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> Poll<usize> {
    let mut piece = [MaybeUninit::uninit(); PIECE];
    let mut piece = ReadBuf::uninit(&mut piece[..PIECE.min(most)]);
    let read = ready!(Pin::new(input).poll_read(context, &mut piece));
    Poll::Ready(read.map_or(0, |()| piece.filled().len()))
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Lingering<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(match buffer.filled().len() - before {
            0 => Ok(()),
            bytes => self.intake.came(bytes),
        })
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Lingering<IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if matches!(this.closing, Closing::No) {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
            let (input, _) = this.stream.get_mut();
            // Pipelined bytes are unread as well.
            let lingers = this.intake.is_unread()
                || matches!(poll_drop(context, input, PIECE), Poll::Ready(1..));
            this.closing = if lingers {
                Closing::Lingers(Linger::begin())
            } else {
                Closing::Done
            };
        }
        if let Closing::Lingers(linger) = &mut this.closing {
            ready!(linger.poll(context, this.stream.get_mut().0));
            this.closing = Closing::Done;
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio_rustls::{TlsAcceptor, TlsConnector, client};

    use super::*;
    use crate::clock::{Clock, SystemClock};
    use crate::start::tls::Identity;

    /// Capacity of the pipe between the two sides.
    const PIPE: usize = 64 * 1024;

    /// A server that has read the first bytes of a request, and its client, which has sent no more
    /// yet.
    async fn connected(
        is_whole: bool,
    ) -> (Lingering<DuplexStream>, client::TlsStream<DuplexStream>) {
        let folder = tempfile::tempdir().unwrap();
        let identity =
            Identity::own(folder.path(), &["localhost".to_owned()], SystemClock.now()).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(identity.config(&[]).unwrap()));
        let mut roots = RootCertStore::empty();
        let authority = identity.authority_pem.as_bytes();
        roots
            .add(CertificateDer::from_pem_slice(authority).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from("localhost").unwrap();
        let (near, far) = tokio::io::duplex(PIPE);
        let (server, client) = tokio::join!(acceptor.accept(near), connector.connect(name, far));
        let (intake, mut client) = (Intake::new(PIPE), client.unwrap());
        let mut server = Lingering::new(server.unwrap(), intake.clone());
        client.write_all(b"request").await.unwrap();
        server.read_exact(&mut [0; 7]).await.unwrap();
        assert!(intake.is_unread());
        if is_whole {
            intake.request_ends();
        }
        server.write_all(b"answer").await.unwrap();
        (server, client)
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_waited_for_after_a_request_that_was_read_whole() {
        let (mut server, mut client) = connected(true).await;
        let began = clock::timer();
        server.shutdown().await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "answer");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_sent_ahead_is_unread() {
        let (mut server, mut client) = connected(true).await;
        client.write_all(b"more").await.unwrap();
        let began = clock::timer();
        server.shutdown().await.unwrap();
        assert!(began.elapsed() >= TIME_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_input_ends_the_wait() {
        let (mut server, mut client) = connected(false).await;
        let began = clock::timer();
        let sent = async {
            // More bytes than the pipe holds are accepted.
            client.write_all(&vec![b'x'; 4 * PIPE]).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            client.shutdown().await.unwrap();
            answer
        };
        let (closed, answer) = tokio::join!(server.shutdown(), sent);
        closed.unwrap();
        assert_eq!(answer, "answer");
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_neither_sends_nor_ends_is_waited_for_only_so_long() {
        let (mut server, _client) = connected(false).await;
        let began = clock::timer();
        server.shutdown().await.unwrap();
        let waited = began.elapsed();
        assert!(waited >= TIME_MAX && waited < TIME_MAX * 2, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_without_end_is_read_only_so_far() {
        let (mut server, mut client) = connected(false).await;
        let mut sent = 0;
        let began = clock::timer();
        let sending = async {
            let (stream, _) = client.get_mut();
            while let Ok(count) = stream.write(&[0; PIECE]).await {
                sent += count;
            }
        };
        tokio::select! {
            () = sending => {}
            closed = server.shutdown() => closed.unwrap(),
        }
        assert!((BYTES_MAX..=BYTES_MAX + PIPE).contains(&sent), "{sent}");
        let waited = began.elapsed();
        assert!(waited >= TIME_MAX && waited < TIME_MAX * 2, "{waited:?}");
    }
}
