//! What filters select, and that they are read as they are written.

use proptest::prelude::*;

use super::*;

fn event() -> Fields<'static> {
    Fields {
        cluster: "prod",
        namespace: "shop",
        kind: "Pod",
        object: "web-0",
        reason: "FailedMount",
        event_type: "Warning",
        source: "kubelet",
        host: "worker-1",
        message: "MountVolume.SetUp failed: secret \"backup key\" not found at 10.0.0.1:6443",
    }
}

#[test]
fn what_filters_select() {
    for (filter, expected) in [
        ("", true),
        ("  reason:FailedMount  ", true),
        ("reason:failedmount", false),
        ("reason:Failed*", true),
        ("reason:*Mount", true),
        ("reason:F*d*t", true),
        ("reason:Failed*Mount*", true),
        ("reason:FailedMount*FailedMount", false),
        ("reason:F*Mountt", false),
        ("reason:*", true),
        ("reason:\"*\"", false),
        ("reason:BackOff reason:FailedMount", true),
        ("reason:BackOff", false),
        ("-reason:Pulled", true),
        ("-reason:Failed*", false),
        ("reason:Failed* -reason:FailedMount", false),
        ("TYPE:warning", true),
        ("type:Normal", false),
        ("kind:pod", true),
        ("kind:Node", false),
        ("object:web-*", true),
        ("name:web-0 namespace:shop", true),
        ("object:pod/web-0", true),
        ("object:Pod/web-*", true),
        ("object:Node/web-0", false),
        ("object:Pod*", false),
        ("-object:Pod/web-0", false),
        ("-object:Node/web-0", true),
        ("ns:bank", false),
        ("host:worker-1 source:kubelet", true),
        ("node:worker-2", false),
        ("cluster:prod -cluster:edge", true),
        ("cluster:edge", false),
        // Texts, which all must be there.
        ("SECRET", true),
        ("secret nothing", false),
        ("\"backup key\"", true),
        ("backup*found", true),
        ("found*backup", false),
        ("-\"not found\"", false),
        ("text:kubelet failedmount pod/web-0", true),
        ("10.0.0.1:6443", true),
        ("-", true),
        ("a-b", false),
        ("\"-\"", true),
        ("source:\"\"", false),
        ("-source:\"\"", true),
        ("\"a\\\"b\"", false),
        ("\"secret \\\"backup\"", true),
    ] {
        let read: Filter = filter.parse().unwrap();
        assert_eq!(read.selects(&event()), expected, "{filter}");
    }
}

#[test]
fn what_is_no_filter() {
    let long = format!("reason:{}", "x".repeat(VALUE_LEN_MAX + 1));
    let many: Vec<_> = (0..=TERMS_MAX).map(|at| format!("reason:r{at}")).collect();
    let texts: Vec<_> = (0..=TEXTS_MAX).map(|at| format!("t{at}")).collect();
    let (many, texts) = (many.join(" "), texts.join(" "));
    for (filter, expected) in [
        ("raeson:x", InvalidFilter::UnknownKey("raeson".to_owned())),
        ("-http://x", InvalidFilter::UnknownKey("http".to_owned())),
        ("reason:", InvalidFilter::MissingValue("reason")),
        ("reason: BackOff", InvalidFilter::MissingValue("reason")),
        ("\"\"", InvalidFilter::MissingValue("text")),
        ("*", InvalidFilter::MissingValue("text")),
        ("reason:\"x", InvalidFilter::OpenQuote),
        (&long, InvalidFilter::ValueTooLong("reason")),
        (&many, InvalidFilter::TooManyTerms),
        (&texts, InvalidFilter::TooManyTexts),
        (&"x ".repeat(FILTER_LEN_MAX), InvalidFilter::TooLong),
    ] {
        assert_eq!(filter.parse::<Filter>(), Err(expected), "{filter:.40}");
    }
}

#[test]
fn what_a_key_may_only_be() {
    let only = |filter: &str, key| {
        let filter: Filter = filter.parse().unwrap();
        let only = filter.only(key).into_iter();
        only.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(only("reason:A reason:B kind:Pod", Key::Reason), ["A", "B"]);
    assert_eq!(only("reason:A reason:B -reason:A", Key::Reason), ["B"]);
    assert_eq!(only("object:Pod/web-0", Key::Object), ["Pod/web-0"]);
    for filter in ["", "reason:A reason:B*", "-reason:A", "kind:Pod"] {
        assert!(only(filter, Key::Reason).is_empty(), "{filter}");
    }
    let filter: Filter = "a*b \"c d\" -e reason:F".parse().unwrap();
    assert_eq!(filter.texts().collect::<Vec<_>>(), ["a", "b", "c d"]);
}

/// Texts of few characters, so that they often match.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab]{0,4}",
        "[aAbB/:\\-* \"\\\\]{0,5}",
        "[äÄßß\u{2028}\u{a0}a]{0,3}",
    ]
}

fn key() -> impl Strategy<Value = Key> {
    (0..Key::ALL.len()).prop_map(|at| Key::ALL[at])
}

/// Keys, exclusions, and the parts between stars.
type Model = Vec<(Key, bool, Vec<String>)>;

fn model() -> impl Strategy<Value = Model> {
    let parts = prop::collection::vec(text(), 1..4);
    prop::collection::vec((key(), any::<bool>(), parts), 0..6)
}

fn filter_of(model: &Model) -> Filter {
    let mut filter = Filter::default();
    for (key, is_excluded, parts) in model {
        let term = Term::new(*key, *is_excluded, Pattern::of_parts(parts.clone()));
        // Empty texts are none.
        if let Ok(term) = term {
            filter.add(term).unwrap();
        }
    }
    filter
}

/// Whether a text matches a pattern, by trying every choice.
fn is_like(parts: &[String], text: &str, is_whole: bool) -> bool {
    let Some((first, rest)) = parts.split_first() else {
        return !is_whole || text.is_empty();
    };
    let Some(after) = text.strip_prefix(first.as_str()) else {
        return false;
    };
    if rest.is_empty() {
        return !is_whole || after.is_empty();
    }
    let mut cuts = (0..=after.len()).filter(|at| after.is_char_boundary(*at));
    cuts.any(|at| is_like(rest, &after[at..], is_whole))
}

fn naive(model: &Model, event: &Fields<'_>) -> bool {
    let is = |key: Key, parts: &[String]| {
        let lower: Vec<String> = parts.iter().map(|part| part.to_lowercase()).collect();
        let whole = |value: &str| is_like(parts, value, true);
        match key {
            Key::Cluster => whole(event.cluster),
            Key::Namespace => whole(event.namespace),
            Key::Reason => whole(event.reason),
            Key::Source => whole(event.source),
            Key::Host => whole(event.host),
            Key::Type => is_like(&lower, &event.event_type.to_lowercase(), true),
            Key::Kind => is_like(&lower, &event.kind.to_lowercase(), true),
            Key::Object => {
                let (kind, name) = (event.kind, event.object);
                let at = parts.iter().position(|part| part.contains('/'));
                whole(name)
                    || at.is_some_and(|at| {
                        let (before, after) = parts[at].split_once('/').unwrap();
                        let mut any_case = lower[..at].to_vec();
                        any_case.push(format!("{}/{after}", before.to_lowercase()));
                        any_case.extend_from_slice(&parts[at + 1..]);
                        whole(&format!("{kind}/{name}"))
                            || is_like(&any_case, &format!("{}/{name}", kind.to_lowercase()), true)
                    })
            }
            Key::Text => {
                let object = format!("{}/{}", event.kind, event.object);
                let fields = [event.message, event.reason, event.source, &object];
                fields.iter().any(|field| {
                    let field = field.to_lowercase();
                    let mut from = (0..=field.len()).filter(|at| field.is_char_boundary(*at));
                    from.any(|at| is_like(&lower, &field[at..], false))
                })
            }
        }
    };
    let terms: Vec<_> = model
        .iter()
        .filter(|(key, _, parts)| *key != Key::Text || parts.iter().any(|part| !part.is_empty()))
        .collect();
    Key::ALL.into_iter().all(|key| {
        let of_key = || terms.iter().filter(move |term| term.0 == key);
        let excluded = of_key().any(|(_, is_excluded, parts)| *is_excluded && is(key, parts));
        let mut included = of_key()
            .filter(|(_, is_excluded, _)| !is_excluded)
            .peekable();
        let found = match key {
            Key::Text => included.all(|(_, _, parts)| is(key, parts)),
            _ => included.peek().is_none() || included.any(|(_, _, parts)| is(key, parts)),
        };
        !excluded && found
    })
}

proptest! {
    #[test]
    fn a_filter_is_read_as_it_is_written(model in model()) {
        let filter = filter_of(&model);
        prop_assert_eq!(filter.to_string().parse::<Filter>(), Ok(filter));
    }

    #[test]
    fn filters_select_what_a_naive_scan_selects(
        model in model(),
        fields in prop::collection::vec(text(), 9),
    ) {
        let event = Fields {
            cluster: &fields[0],
            namespace: &fields[1],
            kind: &fields[2],
            object: &fields[3],
            reason: &fields[4],
            event_type: &fields[5],
            source: &fields[6],
            host: &fields[7],
            message: &fields[8],
        };
        let filter = filter_of(&model);
        prop_assert_eq!(filter.selects(&event), naive(&model, &event), "{}", filter);
    }

    /// Whatever is typed, it is a filter that is read again as the same one, or an error.
    #[test]
    fn any_text_is_a_filter_or_an_error(text in "[ab:*\"\\\\ \\-]{0,20}|\\PC{0,30}") {
        if let Ok(filter) = text.parse::<Filter>() {
            prop_assert_eq!(filter.to_string().parse::<Filter>(), Ok(filter));
        }
    }
}
