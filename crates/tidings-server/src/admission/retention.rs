//! Retention rules: how long events are kept, by their fields. The first matching rule applies.
//!
//! A rule has the conditions that its file states, and matches if all of them hold. Rules apply at
//! each write. So retention counts from the last write, and events written before a rule changed
//! keep their expiry.
//!
//! The conditions are those of [`tidings_api::conditions`].

use std::sync::Arc;
use std::time::Duration;

use k8s_pb::api::core::v1::Event;
use serde::Deserialize;
use serde_saphyr::Spanned;
use tidings_api::conditions::{Conditions, TimedConditions};

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
///   kind: Node
///   message: '*certificate*'
///   not: {reason: NodeReady}                  # or a list, of which none may match
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
    conditions: Conditions,
    ttl: Duration,
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
            let rule = Rule::new(rule.value, line)?;
            if rule.conditions.match_everything() {
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
        let matching = |rule: &&Rule| rule.conditions.match_event(&self.cluster, event);
        self.rules.iter().find(matching).map(|rule| rule.ttl)
    }

    /// The retention and the name of the rule that matches an event. The name is the rule as a line
    /// of YAML, such as `{type: Warning, ttl: 14d}`, of at most 128 characters.
    pub fn rule(&self, event: &Event) -> Option<(Duration, Arc<str>)> {
        let matching = |rule: &&Rule| rule.conditions.match_event(&self.cluster, event);
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
        last.is_some_and(|rule| rule.conditions.match_all_of(&self.cluster))
    }

    /// The rules that can match events of the cluster. No rule follows one that matches all of
    /// them.
    fn possible(&self) -> Vec<&Rule> {
        let mut possible = Vec::new();
        for rule in self
            .rules
            .iter()
            .filter(|rule| rule.conditions.are_for(&self.cluster))
        {
            possible.push(rule);
            if rule.conditions.match_all_of(&self.cluster) {
                break;
            }
        }
        possible
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rules: Vec<Spanned<TimedConditions>>,
}

impl Rule {
    fn new(
        TimedConditions { conditions, ttl }: TimedConditions,
        line: u64,
    ) -> Result<Self, SettingsError> {
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
        Ok(Self {
            name: name(&conditions, &ttl.value).into(),
            conditions,
            ttl: time,
        })
    }
}

/// The maximum characters of a rule's name.
const NAME_LEN_MAX: usize = 128;

/// The name of a rule with these conditions.
fn name(conditions: &Conditions, ttl: &str) -> String {
    let name = format!("{{{conditions}ttl: {ttl}}}");
    match name.char_indices().nth(NAME_LEN_MAX - 1) {
        Some((at, _)) => format!("{}…", &name[..at]),
        None => name,
    }
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
    use k8s_pb::api::core::v1::EventSource;
    use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;

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
- {message: '*refused*', not: [{reason: A, type: Warning}, {reason: B}], ttl: 5h}
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
        let said = |event_type: &str, reason: &str| Event {
            message: Some("connection refused by 10.0.0.1".into()),
            ..event("other", event_type, reason, "x")
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
            (said("Normal", "A"), minutes(300)),
            (said("Warning", "A"), None),
            (said("Normal", "B"), None),
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
- {cluster: edge, not: {cluster: other}, ttl: 3d}
- {not: [{cluster: [edge, 'prod-*']}, {reason: X}], ttl: 4d}
- {not: {cluster: other}, namespace: quiet, ttl: 2d}
",
        )
        .unwrap();
        for (cluster, days, match_everything) in [
            ("other", &[7_u64, 90, 4][..], false),
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
            ("rules:\n- ttl: 1h\n  not: {reasn: X}", "line 3: unknown field `reasn`"),
            ("rules:\n- ttl: 1h\n  not: {ttl: 1h}", "line 3: unknown field `ttl`"),
            ("rules:\n- ttl: 1h\n  not:\n  - {}", "line 4: not without a condition"),
            ("rules:\n- ttl: 1h\n  message: {a: b}", "line 3: "),
            ("rule: []", "line 1: unknown field `rule`"),
            ("", "line 1: "),
            ("rules:\n  - [", "line 2: "),
        ];
        for (text, said) in table {
            let error = RetentionRules::parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }
}
