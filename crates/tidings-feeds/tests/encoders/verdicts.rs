//! What the answers of receivers mean, by form, status and body.

use http::{HeaderMap, HeaderName, HeaderValue};
use tidings_feeds::encode::clickhouse::ClickHouse;
use tidings_feeds::encode::elasticsearch::{Elasticsearch, ElasticsearchOptions};
use tidings_feeds::encode::loki::{Loki, LokiOptions};
use tidings_feeds::encode::otlp::Otlp;
use tidings_feeds::encode::{Answer, Encoder};

use crate::events::{answer, kind, records};

/// Each form has few successes. Whatever else is 2xx comes from something else than the receiver,
/// or says that it ignored the records.
#[test]
fn only_the_successes_of_a_form_are_successes() {
    let loki = Loki::new(LokiOptions::default());
    let elasticsearch = Elasticsearch::new(ElasticsearchOptions::default());
    let (clickhouse, otlp) = (ClickHouse::default(), Otlp::default());
    let encoders: [(&dyn Encoder, &str); 4] = [
        (&loki, ""),
        (&elasticsearch, r#"{"errors":false}"#),
        (&clickhouse, ""),
        (&otlp, ""),
    ];
    for (status, body, expected) in [
        (200, None, ["delivered"; 4]),
        (200, Some("<html>log in</html>"), ["refused"; 4]),
        (202, None, ["refused"; 4]),
        (204, None, ["delivered", "refused", "refused", "refused"]),
        // Loki answers so while it blocks the ingestion of a tenant.
        (260, Some("ingestion blocked"), ["refused"; 4]),
        (302, None, ["refused"; 4]),
        (400, Some("no"), ["rejected"; 4]),
        (401, None, ["refused"; 4]),
        (402, None, ["refused"; 4]),
        (404, None, ["refused"; 4]),
        (408, None, ["retry"; 4]),
        (411, None, ["refused"; 4]),
        (413, None, ["too large"; 4]),
        (415, None, ["refused"; 4]),
        (422, None, ["rejected"; 4]),
        (429, None, ["busy"; 4]),
        (431, None, ["refused"; 4]),
        (501, None, ["refused"; 4]),
        (503, None, ["busy"; 4]),
    ] {
        let found = encoders.map(|(encoder, success)| {
            kind(&encoder.judge(&answer(status, body.unwrap_or(success)), &records()))
        });
        assert_eq!(found, expected, "{status} {body:?}");
    }
}

/// The status of an exception does not say whether a row, the table or the server is at fault.
#[test]
fn exceptions_of_clickhouse_are_judged_by_their_codes() {
    let clickhouse = ClickHouse::default();
    for (status, header, body, expected) in [
        (200, Some("209"), "", "retry"),
        (200, Some("469"), "", "rejected"),
        (200, None, "Code: 241. DB::Exception: Memory limit", "retry"),
        (
            400,
            None,
            "Code: 27. DB::Exception: Cannot parse input",
            "rejected",
        ),
        (
            400,
            None,
            "Code: 117. DB::Exception: Unknown field",
            "rejected",
        ),
        (
            400,
            Some("62"),
            "Code: 62. DB::Exception: Syntax error",
            "refused",
        ),
        (
            404,
            None,
            "Code: 60, e.displayText() = DB::Exception: no table",
            "refused",
        ),
        (
            500,
            None,
            "Code: 16. DB::Exception: No such column",
            "refused",
        ),
        (500, None, "Code: 164. DB::Exception: readonly", "refused"),
        (
            500,
            None,
            "Code: 252. DB::Exception: Too many parts",
            "retry",
        ),
        (
            500,
            None,
            "Code: 691. DB::Exception: Unknown element 'Error'",
            "rejected",
        ),
        (500, None, "Codes: 691. no exception", "retry"),
        (500, Some("what"), "", "retry"),
    ] {
        let mut headers = HeaderMap::new();
        headers.extend(header.map(|code| {
            let name = HeaderName::from_static("x-clickhouse-exception-code");
            (name, HeaderValue::from_static(code))
        }));
        let answer = Answer {
            headers: &headers,
            ..answer(status, body)
        };
        let verdict = clickhouse.judge(&answer, &records());
        assert_eq!(kind(&verdict), expected, "{status} {header:?} {body}");
    }
}
