//! `Warning` headers as kube-apiserver writes them.
//!
//! It follows `k8s.io/apiserver/pkg/endpoints/filters/warning.go`: each text once. If all together
//! are too long, each is truncated, and those beyond the limit are omitted.

use std::collections::BTreeSet;

use http::{HeaderMap, HeaderValue, header};

/// Maximum characters of all texts together, beyond which each is truncated.
const TOTAL_LEN_MAX: usize = 4 * 1024;
/// Maximum characters of a truncated text.
const CUT_LEN: usize = 256;

/// Adds a header for each text.
pub(crate) fn warn<'a>(texts: impl IntoIterator<Item = &'a String>, headers: &mut HeaderMap) {
    let mut seen = BTreeSet::new();
    let texts: Vec<&str> = texts
        .into_iter()
        .map(String::as_str)
        .filter(|text| !text.is_empty() && seen.insert(*text))
        .collect();
    let fits = texts.iter().map(|text| text.chars().count()).sum::<usize>() <= TOTAL_LEN_MAX;
    let mut written = 0;
    for text in texts {
        let text: String = if fits {
            text.to_owned()
        } else {
            text.chars().take(CUT_LEN).collect()
        };
        if !fits && written >= TOTAL_LEN_MAX {
            break;
        }
        // Headers cannot contain control characters.
        if text.chars().any(char::is_control) {
            continue;
        }
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            written += text.chars().count();
            headers.append(header::WARNING, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(texts: &[String]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        warn(texts, &mut headers);
        let values = headers.get_all(header::WARNING).iter();
        values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect()
    }

    #[test]
    fn each_is_said_once_and_quoted() {
        let texts = [
            "unknown field \"ü\"",
            "a\\b",
            "unknown field \"ü\"",
            "",
            "line\n",
        ];
        assert_eq!(
            warnings(&texts.map(str::to_owned)),
            [r#"299 - "unknown field \"ü\"""#, r#"299 - "a\\b""#]
        );
    }

    #[test]
    fn too_many_are_cut_and_then_left_out() {
        let long = |n: usize| format!("{n:03}{}", "x".repeat(400));
        let few: Vec<String> = (0..10).map(long).collect();
        assert!(warnings(&few).iter().all(|text| text.len() > 400));
        let many: Vec<String> = (0..100).map(long).collect();
        let said = warnings(&many);
        assert_eq!(said.len(), TOTAL_LEN_MAX / CUT_LEN);
        assert!(
            said.iter()
                .all(|text| text.len() == CUT_LEN + "299 - \"\"".len())
        );
    }
}
