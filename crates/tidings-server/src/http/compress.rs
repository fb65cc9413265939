//! Compresses long answers with gzip, as kube-apiserver does.
//!
//! It follows `k8s.io/apiserver/pkg/endpoints/handlers/responsewriters`: above 128 KiB, at the
//! fastest level, if the client accepts it; never for watches. Answers are compressed while they
//! stream.

use std::io::Write;

use axum::body::{Body, BodyDataStream, HttpBody};
use axum::response::Response;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::{StreamExt, stream};
use http::{HeaderMap, HeaderValue, header};

use crate::http::status::Status;

/// Maximum length of an answer that is not compressed, in bytes.
const THRESHOLD: usize = 128 * 1024;

/// Compresses a long answer, if the client accepts gzip.
pub(crate) async fn compress(accepts_gzip: bool, response: Response) -> Response {
    // The body of a Status is made later.
    if response.extensions().get::<Status>().is_some() {
        return response;
    }
    let short = response.body().size_hint().upper();
    if !accepts_gzip || short.is_some_and(|len| len <= THRESHOLD as u64) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let mut chunks = body.into_data_stream();
    let mut head: Vec<Result<Bytes, axum::Error>> = Vec::new();
    let mut len = 0;
    while len <= THRESHOLD {
        match chunks.next().await {
            Some(Ok(chunk)) => {
                len += chunk.len();
                head.push(Ok(chunk));
            }
            // The body failed, or is short after all.
            Some(Err(error)) => {
                head.push(Err(error));
                return Response::from_parts(parts, Body::from_stream(stream::iter(head)));
            }
            None => {
                let body: Vec<Bytes> = head.into_iter().flatten().collect();
                return Response::from_parts(parts, Body::from(body.concat()));
            }
        }
    }
    let headers = &mut parts.headers;
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, gzip(head, chunks))
}

/// Whether the client accepts gzip.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|token| token.trim() == "gzip")
}

fn gzip(head: Vec<Result<Bytes, axum::Error>>, chunks: BodyDataStream) -> Body {
    let chunks = Box::pin(stream::iter(head).chain(chunks));
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    Body::from_stream(stream::unfold(
        Some((encoder, chunks)),
        |state| async move {
            let (mut encoder, mut chunks) = state?;
            while let Some(chunk) = chunks.next().await {
                let written =
                    chunk.and_then(|chunk| encoder.write_all(&chunk).map_err(axum::Error::new));
                if let Err(error) = written {
                    return Some((Err(error), None));
                }
                let compressed = std::mem::take(encoder.get_mut());
                if !compressed.is_empty() {
                    return Some((Ok(Bytes::from(compressed)), Some((encoder, chunks))));
                }
            }
            let end = encoder.finish().map(Bytes::from).map_err(axum::Error::new);
            Some((end, None))
        },
    ))
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    #[tokio::test]
    async fn only_what_is_long_and_stands_as_it_is_is_compressed() {
        let long = "x".repeat(THRESHOLD + 1);
        for (response, expected) in [
            (long.clone().into_response(), true),
            ("x".into_response(), false),
            // The body of a Status is encoded again, in the form that the client accepts.
            (Status::internal(long).into_response(), false),
        ] {
            let response = compress(true, response).await;
            let compressed = response.headers().contains_key(header::CONTENT_ENCODING);
            assert_eq!(compressed, expected);
        }
        let response = compress(false, "x".repeat(THRESHOLD + 1).into_response()).await;
        assert!(!response.headers().contains_key(header::CONTENT_ENCODING));
    }
}
