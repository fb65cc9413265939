//! Answers and lines of exports as archives wrote them: they can be read, and are written again
//! byte for byte.

use tidings_history::{Answer, Coverage, ExportLine};
use tidings_store::UnixMillis;

fn answered(coverage: Coverage) -> serde_json::Result<String> {
    let answer = serde_json::to_value(Answer::Coverage(coverage))?;
    Ok(format!("{answer:#}\n"))
}

#[test]
fn coverage_is_read_and_written_as_it_was() {
    for text in [
        include_str!("answers/coverage.json"),
        include_str!("answers/coverage-of-namespace.json"),
        include_str!("answers/coverage-of-sealed.json"),
    ] {
        let coverage: Coverage = serde_json::from_str(text).unwrap();
        assert_eq!(answered(coverage).unwrap(), text);
    }
}

#[test]
fn the_coverage_of_a_namespace_is_a_part_of_that_of_the_cluster() {
    let all: Coverage = serde_json::from_str(include_str!("answers/coverage.json")).unwrap();
    let text = include_str!("answers/coverage-of-namespace.json");
    assert_eq!(answered(all.of_namespace("shop")).unwrap(), text);
}

/// Earlier versions of the program wrote fewer fields.
#[test]
fn an_answer_of_a_former_program_is_read() {
    let text = r#"{"kind": "Coverage", "cluster": "prod", "events": 3, "diskBytes": 7,
        "overQuota": {"events": 2, "lastSeenBefore": "1970-01-01T00:00:01Z"},
        "followed": [{"namespace": "", "since": "1970-01-01T00:00:00Z",
            "completeUntil": "1970-01-01T00:00:02Z", "resourceVersion": "8",
            "latestResourceVersion": "9", "epoch": 0, "versions": 5}],
        "gaps": [{"from": "1970-01-01T00:00:00Z", "to": "1970-01-01T00:00:02Z",
            "cause": "absent", "namespace": ""}]}"#;
    let coverage: Coverage = serde_json::from_str(text).unwrap();
    assert_eq!(coverage.over_quota.observed_before, Some(UnixMillis(1000)));
    let gap = &coverage.gaps[0];
    assert_eq!((gap.gaps, gap.missing_millis()), (1, 2000));
    let progress = coverage.followed[0].progress.unwrap();
    assert_eq!((progress.resource_version, progress.versions), (Some(8), 5));
    assert_eq!(coverage.totals.unwrap().events, 3);
    // A number that cannot be read counts as missing, and not as another number.
    let text = text.replace(r#""8""#, r#""eight""#);
    let coverage: Coverage = serde_json::from_str(&text).unwrap();
    assert_eq!(coverage.followed[0].progress, None);
}

#[test]
fn lines_of_an_export_are_read_and_written_as_they_were() {
    let at = r#""observedAt":"2026-01-01T00:00:00.5Z""#;
    let end = r#""kind":"End","namespace":"shop","name":"a.1","uid":"u","resourceVersion":"9""#;
    let lines = [
        include_str!("answers/export-head.jsonl").to_owned(),
        r#"{"kind":"Deleted","namespace":"shop","name":"a.1","uid":"u","until":"2026-01-01T00:00:00Z"}"#
            .to_owned() + "\n",
        format!("{{\"kind\":\"Version\",\"namespace\":\"shop\",\"name\":\"a.1\",\"epoch\":1,{at},\"event\":{{\"metadata\":{{\"name\":\"a\"}}}}}}\n"),
        format!("{{{end},{at}}}\n"),
        format!("{{{end},{at},\"notBefore\":\"2026-01-01T00:00:00Z\"}}\n"),
        "{\"kind\":\"Complete\"}\n".to_owned(),
        "{\"continue\":\"token\",\"kind\":\"Continue\"}\n".to_owned(),
    ];
    for text in lines {
        let line: ExportLine = serde_json::from_str(&text).unwrap();
        let mut written = Vec::new();
        line.write(&mut written);
        assert_eq!(String::from_utf8(written).unwrap(), text);
    }
}
