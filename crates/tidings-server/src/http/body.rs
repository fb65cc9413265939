//! Reads request bodies, up to a maximum length.

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::http::status::Status;

/// Default maximum length of a body, in bytes; kube-apiserver's own limit.
pub(crate) const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Reads a body of at most `bytes_max` bytes.
///
/// # Errors
///
/// The errors of [`read_body_as`].
pub(crate) async fn read_body(body: Body, bytes_max: usize) -> Result<Bytes, Status> {
    read_body_as(body, bytes_max, usize::MAX, async || Ok(())).await
}

/// Reads a body of at most `bytes_max` bytes. Once it exceeds `short` bytes, `grow` is awaited once
/// before more is read. A body in one piece is not copied. Several pieces are copied together at
/// once, because a client chooses their number, and each piece takes far more memory than a byte.
///
/// # Errors
///
/// 413 for a longer body, 400 if the client disconnects before its end, and the errors of `grow`.
pub(crate) async fn read_body_as(
    body: Body,
    bytes_max: usize,
    short: usize,
    grow: impl AsyncFnOnce() -> Result<(), Status>,
) -> Result<Bytes, Status> {
    let mut grow = Some(grow);
    let mut len = 0_usize;
    let mut body = Limited::new(body, bytes_max);
    let mut first = Bytes::new();
    let mut gathered = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            if error.is::<LengthLimitError>() {
                Status::body_too_large(bytes_max)
            } else {
                Status::bad_request(format!("the body could not be read: {error}"))
            }
        })?;
        // Trailers are ignored.
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        len = len.saturating_add(piece.len());
        if len > short
            && let Some(grow) = grow.take()
        {
            grow().await?;
        }
        if gathered.is_empty() {
            if first.is_empty() {
                first = piece;
                continue;
            }
            gathered.extend_from_slice(&std::mem::take(&mut first));
        }
        gathered.extend_from_slice(&piece);
    }
    Ok(if gathered.is_empty() {
        first
    } else {
        gathered.into()
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http::StatusCode;

    use super::*;

    #[tokio::test]
    async fn a_body_is_the_same_in_however_many_pieces() {
        const WHOLE: &[u8] = b"a body of some length";
        for length in 1..=WHOLE.len() {
            let pieces = |whole: &'static [u8]| {
                // An empty piece is a piece, too.
                let pieces = [&[][..]].into_iter().chain(whole.chunks(length));
                let pieces = pieces.map(|piece| Ok::<_, Infallible>(Bytes::from_static(piece)));
                Body::from_stream(stream::iter(pieces))
            };
            let read = read_body(pieces(WHOLE), WHOLE.len()).await.unwrap();
            assert_eq!(read, WHOLE);
            let refused = read_body(pieces(WHOLE), WHOLE.len() - 1).await;
            let refused = refused.unwrap_err();
            assert_eq!(refused.code(), StatusCode::PAYLOAD_TOO_LARGE);
        }
        assert_eq!(read_body(Body::empty(), 0).await.unwrap(), b""[..]);
    }
}
