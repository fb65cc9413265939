//! `tidings coverage --check-retention`: what rules of retention would end at once if they came
//! into force, by rule.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tidings_archive::EVENT_TTL;
use tidings_cli::table::{Cell, Screen};
use tidings_history::{Coverage, RuleOutlook};
use tidings_server::{RetentionRules, SettingsError};

use super::cells::{UNKNOWN, number, table, text};

const HEADINGS: [&str; 4] = ["CLUSTER", "RULE", "EVENTS", "WOULD END"];

/// A file of rules that can be used.
pub(super) struct CheckedRules {
    pub(super) text: String,
    rules: RetentionRules,
}

/// Why a file of rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum RulesError {
    #[error("{}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {source}", path.display())]
    Parse {
        path: PathBuf,
        source: SettingsError,
    },
}

impl CheckedRules {
    pub(super) fn read(path: &Path) -> Result<Self, RulesError> {
        let text = std::fs::read_to_string(path).map_err(|source| RulesError::Read {
            path: path.to_owned(),
            source,
        })?;
        let rules = RetentionRules::parse(&text).map_err(|source| RulesError::Parse {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self { text, rules })
    }
}

/// Prints a row for each rule, also for those that match nothing, and a line for each cluster.
pub(super) fn print(
    found: &[Coverage],
    rules: &CheckedRules,
    screen: Screen,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rows: Vec<_> = found
        .iter()
        .flat_map(|coverage| {
            let names = rules.rules.names().chain([EVENT_TTL]);
            names.map(|name| row(coverage, name))
        })
        .collect();
    table(&HEADINGS, &rows, screen, out)?;
    writeln!(out)?;
    for Coverage {
        cluster, would_end, ..
    } in found
    {
        match would_end {
            Some(outlook) => {
                let (ended, events) = (outlook.ended(), outlook.events());
                writeln!(
                    out,
                    "{cluster}: {ended} of {events} events would end at once."
                )?;
            }
            None => writeln!(
                out,
                "{cluster}: not followed here, or by an archive that does not examine rules."
            )?,
        }
    }
    Ok(())
}

fn row(coverage: &Coverage, name: &str) -> Vec<Cell> {
    let found = coverage.would_end.as_ref().map(|outlook| {
        let found = outlook.by_rule.get(name);
        found.copied().unwrap_or_default()
    });
    let numbers = found.map_or_else(
        || [text(UNKNOWN), text(UNKNOWN)],
        |RuleOutlook { events, ended }| [number(Some(events)), number(Some(ended))],
    );
    let names = [text(&coverage.cluster), text(name)];
    names.into_iter().chain(numbers).collect()
}

#[cfg(test)]
mod tests {
    use tidings_history::Outlook;

    use super::*;

    /// A rule whose cluster or reason is misspelt matches nothing, and would not be noticed.
    #[test]
    fn each_rule_has_a_row_also_without_events() {
        let text = "rules:\n- {type: Warning, ttl: 5m}\n- {cluster: prdo, ttl: 1d}\n";
        let rules = CheckedRules {
            text: text.into(),
            rules: RetentionRules::parse(text).unwrap(),
        };
        let mut outlook = Outlook::default();
        outlook.add("{type: Warning, ttl: 5m}", true);
        outlook.add(EVENT_TTL, false);
        let of = |cluster: &str, would_end| Coverage {
            cluster: cluster.into(),
            would_end,
            ..Coverage::default()
        };
        let found = [of("prod", Some(outlook)), of("old", None)];
        let mut out = Vec::new();
        print(&found, &rules, Screen::default(), &mut out).unwrap();
        let printed = String::from_utf8(out).unwrap();
        let rows: Vec<Vec<&str>> = printed
            .lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|it| !it.is_empty())
                    .collect()
            })
            .collect();
        assert_eq!(
            rows,
            [
                vec!["CLUSTER", "RULE", "EVENTS", "WOULD END"],
                vec!["prod", "{type: Warning, ttl: 5m}", "1", "1"],
                vec!["prod", "{cluster: prdo, ttl: 1d}", "0", "0"],
                vec!["prod", "event TTL", "1", "0"],
                vec!["old", "{type: Warning, ttl: 5m}", UNKNOWN, UNKNOWN],
                vec!["old", "{cluster: prdo, ttl: 1d}", UNKNOWN, UNKNOWN],
                vec!["old", "event TTL", UNKNOWN, UNKNOWN],
                vec![],
                vec!["prod: 1 of 2 events would end at once."],
                vec!["old: not followed here, or by an archive that does not examine rules."],
            ]
        );
    }
}
