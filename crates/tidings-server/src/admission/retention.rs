//! Retention rules: how long events are kept, by their fields. The first matching rule applies.
//!
//! A rule has the conditions that its file states, and matches if all of them hold. Rules apply at
//! each write. So retention counts from the last write, and events written before a rule changed
//! keep their expiry.
//!
//! A new condition is a new [`Field`] and a new field of [`RuleText`]; the compiler asks for the
//! rest.

use std::sync::Arc;
use std::time::Duration;

use k8s_pb::api::core::v1::{Event, EventSource};
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_saphyr::Spanned;

use crate::auth::settings::{self, SettingsError};
use crate::http::duration::parse_go_duration;

/// The shortest retention.
const TTL_MIN: Duration = Duration::from_secs(1);
/// The longest retention: a hundred years.
const TTL_MAX: Duration = Duration::from_secs(36_500 * 24 * 3600);

/// Rules for how long events are kept. By default there are no rules, and `--event-ttl` applies to
/// all events.
///
/// ```
/// use tidings_server::RetentionRules;
///
/// RetentionRules::parse("
/// rules:
/// - namespace: [kube-system, 'openshift-*']   # one, or several; * stands for any characters
///   type: Warning
///   ttl: 14d                                  # days, or a duration as Go writes it, or both: 1d12h
/// - reason: [Pulled, Pulling, Created, Started]
///   ttl: 30m
/// - reportingController: kubelet              # or, without one, source.component
///   ttl: 2h
/// - source: {component: kubelet, host: 'edge-*'}
///   ttl: 7d
/// - cluster: [prod, 'prod-*']                 # of an archive; tidings serve has no clusters
///   ttl: 365d
/// ")?;
/// # Ok::<(), tidings_server::SettingsError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct RetentionRules {
    rules: Arc<[Rule]>,
    /// Name of the cluster whose events the rules apply to.
    cluster: Arc<str>,
}

#[derive(Debug)]
struct Rule {
    /// The rule as a line of YAML.
    name: Arc<str>,
    conditions: Vec<Condition>,
    ttl: Duration,
}

/// A condition on one field of the event.
#[derive(Debug)]
struct Condition {
    field: Field,
    /// The patterns, at least one. One of them must match.
    patterns: Vec<String>,
}

/// The fields that conditions can name.
#[derive(Clone, Copy, Debug)]
enum Field {
    Cluster,
    Namespace,
    Type,
    Reason,
    ReportingController,
    SourceComponent,
    SourceHost,
}

impl Field {
    /// The field's name in the file.
    fn name(self) -> &'static str {
        match self {
            Self::Cluster => "cluster",
            Self::Namespace => "namespace",
            Self::Type => "type",
            Self::Reason => "reason",
            Self::ReportingController => "reportingController",
            Self::SourceComponent => "source.component",
            Self::SourceHost => "source.host",
        }
    }

    /// The field's value in an event of a cluster.
    fn of<'a>(self, cluster: &'a str, event: &'a Event) -> &'a str {
        let source = event.source.as_ref();
        match self {
            Self::Cluster => Some(cluster),
            Self::Namespace => event.metadata.as_ref().map(ObjectMeta::namespace),
            Self::Type => Some(event.r#type()),
            Self::Reason => Some(event.reason()),
            Self::ReportingController => match event.reporting_component() {
                "" => return Self::SourceComponent.of(cluster, event),
                controller => Some(controller),
            },
            Self::SourceComponent => source.map(EventSource::component),
            Self::SourceHost => source.map(EventSource::host),
        }
        .unwrap_or_default()
    }

    /// Checks that a pattern can match a value of the field.
    fn check(self, pattern: &str) -> Result<(), &'static str> {
        let is_namespace = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'*');
        match self {
            Self::Namespace if !pattern.bytes().all(is_namespace) => {
                Err("namespaces are of lower-case letters, digits and '-'; * stands for any")
            }
            Self::Type if !matches!(pattern, "Normal" | "Warning") => {
                Err("expected Normal or Warning")
            }
            Self::Cluster
            | Self::Namespace
            | Self::Type
            | Self::Reason
            | Self::ReportingController
            | Self::SourceComponent
            | Self::SourceHost => Ok(()),
        }
    }
}

impl Rule {
    fn matches(&self, cluster: &str, event: &Event) -> bool {
        let holds = |condition: &Condition| {
            let found = condition.field.of(cluster, event);
            let mut patterns = condition.patterns.iter();
            patterns.any(|pattern| glob(pattern, found))
        };
        self.conditions.iter().all(holds)
    }

    fn matches_everything(&self) -> bool {
        self.conditions.iter().all(Condition::always_holds)
    }

    /// Whether the rule can match events of a cluster.
    fn is_for(&self, cluster: &str) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.all(|condition| condition.holds_for(cluster).unwrap_or(true))
    }

    /// Whether the rule matches every event of a cluster.
    fn matches_all_of(&self, cluster: &str) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.all(|condition| {
            let holds = condition.holds_for(cluster);
            holds.unwrap_or_else(|| condition.always_holds())
        })
    }
}

impl Condition {
    fn always_holds(&self) -> bool {
        self.patterns.iter().any(|pattern| pattern == "*")
    }

    /// Whether the condition holds for a cluster; `None` if it concerns another field.
    fn holds_for(&self, cluster: &str) -> Option<bool> {
        let mut patterns = self.patterns.iter();
        matches!(self.field, Field::Cluster).then(|| patterns.any(|pattern| glob(pattern, cluster)))
    }
}

/// Whether a text matches a pattern, in which `*` stands for any characters.
fn glob(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        // The pattern has no star.
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    rest.ends_with(last)
}

impl RetentionRules {
    /// Reads the rules of a YAML file.
    ///
    /// # Errors
    ///
    /// The mistake and its line: an unknown field, a time that is invalid or out of bounds (1s to
    /// 36500d), a type that is neither Normal nor Warning, or a rule after one that matches every
    /// event.
    pub fn parse(text: &str) -> Result<Self, SettingsError> {
        let file: File = settings::read(text)?;
        let mut rules: Vec<Rule> = Vec::with_capacity(file.rules.len());
        let mut catch_all = None;
        for rule in file.rules {
            if let Some(line) = catch_all {
                let message =
                    format!("this rule never applies: the one on line {line} matches every event");
                return Err(SettingsError::at(&rule, message));
            }
            let line = rule.referenced.line();
            let rule = rule.value.check(line)?;
            if rule.matches_everything() {
                catch_all = Some(line);
            }
            rules.push(rule);
        }
        Ok(Self {
            rules: rules.into(),
            cluster: Arc::default(),
        })
    }

    /// The same rules, for the events of a cluster that an archive follows.
    #[must_use]
    pub fn of_cluster(&self, name: &str) -> Self {
        Self {
            rules: Arc::clone(&self.rules),
            cluster: name.into(),
        }
    }

    /// The retention of an event after a write, if a rule matches.
    pub fn ttl(&self, event: &Event) -> Option<Duration> {
        let matching = |rule: &&Rule| rule.matches(&self.cluster, event);
        self.rules.iter().find(matching).map(|rule| rule.ttl)
    }

    /// The retention and the name of the rule that matches an event. The name is the rule as a line
    /// of YAML, such as `{type: Warning, ttl: 14d}`, of at most 128 characters.
    pub fn rule(&self, event: &Event) -> Option<(Duration, Arc<str>)> {
        let matching = |rule: &&Rule| rule.matches(&self.cluster, event);
        let rule = self.rules.iter().find(matching)?;
        Some((rule.ttl, Arc::clone(&rule.name)))
    }

    /// The names of all rules, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| &*rule.name)
    }

    /// The retentions of all rules that can match events of the cluster, in their order.
    pub fn times(&self) -> Vec<Duration> {
        self.possible().into_iter().map(|rule| rule.ttl).collect()
    }

    /// Whether every event of the cluster matches a rule. Then [`ttl`](Self::ttl) is never `None`.
    pub fn match_everything(&self) -> bool {
        let last = self.possible().pop();
        last.is_some_and(|rule| rule.matches_all_of(&self.cluster))
    }

    /// The rules that can match events of the cluster. No rule follows one that matches all of
    /// them.
    fn possible(&self) -> Vec<&Rule> {
        let mut possible = Vec::new();
        for rule in self.rules.iter().filter(|rule| rule.is_for(&self.cluster)) {
            possible.push(rule);
            if rule.matches_all_of(&self.cluster) {
                break;
            }
        }
        possible
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rules: Vec<Spanned<RuleText>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleText {
    cluster: Option<Spanned<OneOrMore>>,
    namespace: Option<Spanned<OneOrMore>>,
    r#type: Option<Spanned<OneOrMore>>,
    reason: Option<Spanned<OneOrMore>>,
    reporting_controller: Option<Spanned<OneOrMore>>,
    source: Option<SourceText>,
    ttl: Option<Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceText {
    component: Option<Spanned<OneOrMore>>,
    host: Option<Spanned<OneOrMore>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl RuleText {
    fn check(self, line: u64) -> Result<Rule, SettingsError> {
        // Without `..`, so that no field can be forgotten.
        let Self {
            cluster,
            namespace,
            r#type,
            reason,
            reporting_controller,
            source,
            ttl,
        } = self;
        let SourceText { component, host } = source.unwrap_or_default();
        let ttl = ttl.ok_or_else(|| SettingsError {
            line,
            message: "the rule has no ttl".into(),
        })?;
        let bounds = TTL_MIN..=TTL_MAX;
        let Some(time) = parse_days(&ttl.value).filter(|time| bounds.contains(time)) else {
            let message = format!(
                "ttl {:?} is not a time from 1s to 36500d, such as 14d, 1d12h or 90m",
                ttl.value
            );
            return Err(SettingsError::at(&ttl, message));
        };
        let given = [
            (Field::Cluster, cluster),
            (Field::Namespace, namespace),
            (Field::Type, r#type),
            (Field::Reason, reason),
            (Field::ReportingController, reporting_controller),
            (Field::SourceComponent, component),
            (Field::SourceHost, host),
        ];
        let conditions = given
            .into_iter()
            .filter_map(|(field, given)| given.map(|given| condition(field, given)))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Rule {
            name: name(&conditions, &ttl.value).into(),
            conditions,
            ttl: time,
        })
    }
}

/// The maximum characters of a rule's name.
const NAME_LEN_MAX: usize = 128;

/// The name of a rule with these conditions.
fn name(conditions: &[Condition], ttl: &str) -> String {
    let conditions = conditions.iter().map(|Condition { field, patterns }| {
        let field = field.name();
        match patterns.as_slice() {
            [pattern] => format!("{field}: {pattern}, "),
            patterns => format!("{field}: [{}], ", patterns.join(", ")),
        }
    });
    let name = format!("{{{}ttl: {ttl}}}", conditions.collect::<String>());
    match name.char_indices().nth(NAME_LEN_MAX - 1) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name,
    }
}

fn condition(field: Field, given: Spanned<OneOrMore>) -> Result<Condition, SettingsError> {
    let line = given.referenced.line();
    let name = field.name();
    let patterns = match given.value {
        OneOrMore::One(pattern) => vec![pattern],
        OneOrMore::More(patterns) => patterns,
    };
    let refuse = |message: String| Err(SettingsError { line, message });
    if patterns.is_empty() {
        return refuse(format!("{name} is an empty list, which matches nothing"));
    }
    for pattern in &patterns {
        if pattern.is_empty() {
            return refuse(format!("{name} is empty; leave it out to match everything"));
        }
        if let Err(why) = field.check(pattern) {
            return refuse(format!("{name} {pattern:?}: {why}"));
        }
    }
    Ok(Condition { field, patterns })
}

/// Reads a duration in Go's notation, optionally preceded by days: `90d`, `1d12h`, `30m`.
pub fn parse_days(text: &str) -> Option<Duration> {
    let Some((days, rest)) = text.split_once('d') else {
        return parse_go_duration(text);
    };
    if days.is_empty() || !days.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let days = days.parse::<u64>().ok()?.checked_mul(24 * 3600)?;
    let rest = match rest {
        "" => Duration::ZERO,
        rest => parse_go_duration(rest)?,
    };
    Duration::from_secs(days).checked_add(rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times() {
        for (text, seconds) in [
            ("14d", Some(14 * 86_400)),
            ("1d12h", Some(129_600)),
            ("90m", Some(5400)),
            ("0d1s", Some(1)),
            ("d", None),
            ("-1d", None),
            ("1d1", None),
            ("1.5d", None),
            ("1w", None),
            ("99999999999999999999d", None),
        ] {
            assert_eq!(parse_days(text), seconds.map(Duration::from_secs), "{text}");
        }
    }

    fn event(namespace: &str, event_type: &str, reason: &str, component: &str) -> Event {
        Event {
            metadata: Some(ObjectMeta {
                namespace: Some(namespace.into()),
                ..ObjectMeta::default()
            }),
            r#type: Some(event_type.into()),
            reason: Some(reason.into()),
            source: Some(EventSource {
                component: Some(component.into()),
                host: None,
            }),
            ..Event::default()
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = RetentionRules::parse(
            "rules:
- {namespace: [kube-system, 'team-*'], type: Warning, ttl: 14d}
- {reason: ['Pull*', Created], ttl: 30m}
- {reportingController: kubelet, ttl: 2h}
- {namespace: quiet, ttl: 1s}
- {source: {component: [scheduler, 'edge-*'], host: node-1}, ttl: 3h}
- {source: {host: '*-2'}, ttl: 4h}
",
        )
        .unwrap();
        let minutes = |count: u64| Some(Duration::from_secs(count * 60));
        let on = |host: &str, component: &str| {
            let mut event = event("other", "Normal", "X", component);
            if let Some(source) = &mut event.source {
                source.host = Some(host.into());
            }
            event
        };
        #[rustfmt::skip]
        let table = [
            (event("kube-system", "Warning", "Pulled", "x"), minutes(20_160)),
            (event("team-", "Warning", "Pulled", "x"), minutes(20_160)),
            (event("steam-a", "Warning", "Pulled", "x"), minutes(30)),
            (event("team-a", "Normal", "Created", "x"), minutes(30)),
            (event("team-a", "Normal", "CreatedX", "kubelet"), minutes(120)),
            (event("quiet", "Normal", "X", "x"), Some(Duration::from_secs(1))),
            (event("other", "Normal", "X", "x"), None),
            (on("node-1", "edge-proxy"), minutes(180)),
            (on("node-1", "x"), None),
            (on("node-2", "edge-proxy"), minutes(240)),
            (on("node-3", "scheduler"), None),
        ];
        for (event, expected) in table {
            assert_eq!(rules.ttl(&event), expected, "{event:?}");
        }
        // The field of events.k8s.io takes precedence over the source.
        let mut reported = event("other", "Normal", "X", "kubelet");
        reported.reporting_component = Some("example.com/other".into());
        assert_eq!(rules.ttl(&reported), None);
    }

    #[test]
    fn the_times_are_those_of_rules_that_can_match_events_of_the_cluster() {
        let rules = RetentionRules::parse(
            "rules:
- {type: Normal, ttl: 7d}
- {cluster: 'prod-*', reason: X, ttl: 1h}
- {cluster: ['*'], namespace: shop, ttl: 90d}
- {cluster: edge, ttl: 3d}
- {namespace: quiet, ttl: 2d}
",
        )
        .unwrap();
        for (cluster, days, match_everything) in [
            ("other", &[7_u64, 90, 2][..], false),
            // A rule after one that matches every event of the cluster never applies.
            ("edge", &[7, 90, 3], true),
        ] {
            let rules = rules.of_cluster(cluster);
            let times = days.iter().map(|days| Duration::from_secs(days * 86_400));
            assert_eq!(rules.times(), times.collect::<Vec<_>>(), "{cluster}");
            assert_eq!(rules.match_everything(), match_everything, "{cluster}");
        }
        let hour = Duration::from_secs(3600);
        assert!(rules.of_cluster("prod-1").times().contains(&hour));
        let none = RetentionRules::default();
        assert!(none.times().is_empty() && !none.match_everything());
    }

    #[test]
    fn files_that_are_refused_say_where() {
        #[rustfmt::skip]
        let table = [
            ("rules:\n- reasn: X\n  ttl: 1h", "line 2: unknown field `reasn`"),
            ("rules:\n- reason: X\n  ttl: soon", "line 3: ttl \"soon\" is not a time"),
            ("rules:\n- reason: X\n  ttl: 0s", "line 3: ttl \"0s\""),
            ("rules:\n- reason: X\n  ttl: 36501d", "line 3: ttl"),
            ("rules:\n- reason: X\n- ttl: 1h", "line 2: the rule has no ttl"),
            (
                "rules:\n- type: warning\n  ttl: 1h",
                "line 2: type \"warning\": expected Normal or Warning",
            ),
            ("rules:\n- namespace: Shop\n  ttl: 1h", "line 2: namespace \"Shop\""),
            ("rules:\n- ttl: 1h\n  reason: []", "line 3: reason is an empty list"),
            ("rules:\n- ttl: 1h\n  reason: ''", "line 3: reason is empty"),
            (
                "rules:\n- ttl: 1h\n  reason: '*'\n- reason: X\n  ttl: 2h",
                "line 4: this rule never applies: the one on line 2",
            ),
            ("rules:\n- source: {node: x}\n  ttl: 1h", "line 2: unknown field `node`"),
            ("rules:\n- source: {host: []}\n  ttl: 1h", "line 2: source.host is an empty list"),
            (
                "rules:\n- source: {host: '*'}\n  ttl: 1h\n- ttl: 2h",
                "line 4: this rule never applies",
            ),
            ("rule: []", "line 1: unknown field `rule`"),
            ("", "line 1: "),
            ("rules:\n  - [", "line 2: "),
        ];
        for (text, said) in table {
            let error = RetentionRules::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }

    /// A simple implementation, letter by letter, to compare with.
    fn slow_glob(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => {
                slow_glob(rest, text)
                    || text
                        .split_first()
                        .is_some_and(|(_, text)| slow_glob(pattern, text))
            }
            (Some((a, pattern)), Some((b, text))) => a == b && slow_glob(pattern, text),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn globs(pattern in "[ab*]{0,6}", text in "[ab]{0,8}") {
            prop_assert_eq!(glob(&pattern, &text), slow_glob(pattern.as_bytes(), text.as_bytes()));
        }
    }
}
