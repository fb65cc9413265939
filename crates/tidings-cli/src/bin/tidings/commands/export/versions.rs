//! `tidings export --versions`: copies all versions that an archive has of a cluster, page by page,
//! as the lines that the archive returns.
//!
//! The versions of an event come oldest first, so the last line of an interrupted export says where
//! it continues: after everything in the file, and before everything else. Only deletions, which
//! come first, may then be written twice.

use serde_json::Value;
use tidings_history::ExportLine;

use super::super::archived;
use super::super::cluster::{CommandError, Server};
use super::file::Target;

/// The server of an archive, and the query that selects a part of what it has.
type From<'a> = (&'a Server, &'a [(&'static str, String)]);

/// Reads the page of a part that a further parameter names, or the first page.
async fn page(
    (server, part): From<'_>,
    place: Option<&(&'static str, String)>,
) -> Result<String, CommandError> {
    let pairs = part.iter().chain(place);
    let pairs = pairs.map(|(name, value)| (*name, value.as_str()));
    archived::export(server, &pairs.collect::<Vec<_>>()).await
}

/// Copies all lines after the last line of the file; returns how many versions and ends they
/// contain. `first` and `last` are lines of the file.
///
/// # Errors
/// The errors of the server and of the file, and lines of another archive.
pub(super) async fn copy(
    from: From<'_>,
    lines: Option<(&Value, &Value)>,
    target: &mut Target,
    told: impl Fn(u64),
) -> Result<u64, CommandError> {
    let mut behind = Lines::default();
    if let Some((first, last)) = lines {
        // Another archive may answer at the same address.
        let page = page(from, None).await?;
        let head = line(page.lines().next().unwrap_or_default())?;
        is_continued(&line(&first.to_string())?, &head)?;
        behind = Lines::behind(&line(&last.to_string())?);
    }
    behind.copy(from, target, told).await
}

/// Checks that the file's first line and the export's first line are of the same archive and store.
fn is_continued(first: &ExportLine, head: &ExportLine) -> Result<(), CommandError> {
    if let (ExportLine::Coverage(first), ExportLine::Coverage(head)) = (first, head)
        && first.store == head.store
    {
        return Ok(());
    }
    let why = "continue the export of another archive: export again without --resume";
    Err(CommandError::Usage(why.to_owned()))
}

fn line(text: &str) -> Result<ExportLine, CommandError> {
    serde_json::from_str(text).map_err(|error| CommandError::Unreadable {
        what: "read the lines of the archive".to_owned(),
        why: error.to_string(),
    })
}

/// The position of a line among those of its event: versions in the order of the source, and then
/// ends.
type Place = (bool, u64, u64);

/// Selects the lines that are not in the file yet.
#[derive(Default)]
struct Lines {
    /// The event and the position of the last line in the file.
    last: Option<(String, Place)>,
    /// Whether the file has the first line already.
    has_head: bool,
}

/// The event whose version or end a line is, and the line's place.
fn place(line: &ExportLine) -> Option<(String, Place)> {
    let (namespace, name, place) = match line {
        ExportLine::Version {
            namespace,
            name,
            epoch,
            event,
            ..
        } => {
            let number = event.pointer("/metadata/resourceVersion");
            let number = number.and_then(|text| text.as_str()?.parse().ok());
            (namespace, name, (false, *epoch, number.unwrap_or(0)))
        }
        ExportLine::End {
            namespace,
            name,
            resource_version,
            ..
        } => (namespace, name, (true, 0, *resource_version)),
        _ => return None,
    };
    Some((format!("{namespace}/{name}"), place))
}

impl Lines {
    /// Selects the lines after the last line of an interrupted export.
    fn behind(last: &ExportLine) -> Self {
        Self {
            last: place(last),
            has_head: true,
        }
    }

    fn is_wanted(&self, line: &ExportLine) -> bool {
        if matches!(line, ExportLine::Coverage(_)) {
            return !self.has_head;
        }
        let Some((last, at)) = &self.last else {
            return true;
        };
        place(line).is_none_or(|(event, place)| event != *last || place > *at)
    }

    /// Copies the selected lines; returns the number of versions and ends.
    async fn copy(
        &mut self,
        part: From<'_>,
        target: &mut Target,
        told: impl Fn(u64),
    ) -> Result<u64, CommandError> {
        let from = self.last.as_ref().map(|(event, _)| event.clone());
        let mut query = from.map(|from| ("from", from));
        let mut count = 0;
        loop {
            let page = page(part, query.as_ref()).await?;
            let mut is_whole = false;
            query = None;
            for line in page.lines() {
                let read = self::line(line)?;
                if let ExportLine::Continue { r#continue } = read {
                    query = Some(("continue", r#continue));
                    continue;
                }
                is_whole |= matches!(read, ExportLine::Complete {});
                if self.is_wanted(&read) {
                    target.write_line(line)?;
                    count += u64::from(place(&read).is_some());
                }
            }
            target.flush()?;
            told(count);
            if is_whole {
                return Ok(count);
            }
            if query.is_none() {
                return Err(CommandError::Unreadable {
                    what: "read the lines of the archive".to_owned(),
                    why: "a page says neither where the next one begins nor that it is the last"
                        .to_owned(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AT: &str = "2026-01-01T00:00:00Z";

    fn read(value: &Value) -> ExportLine {
        line(&value.to_string()).unwrap()
    }

    fn version(name: &str, epoch: u64, number: &str) -> ExportLine {
        read(&json!({
            "kind": "Version", "namespace": "shop", "name": name, "epoch": epoch,
            "observedAt": AT, "event": {"metadata": {"resourceVersion": number}},
        }))
    }

    fn head(store: &str) -> ExportLine {
        read(&json!({
            "kind": "Coverage", "cluster": "prod", "form": 1, "store": store, "exportedAt": AT,
        }))
    }

    #[test]
    fn an_export_of_another_archive_is_not_continued() {
        let first = head("one");
        assert!(is_continued(&first, &head("one")).is_ok());
        let refused = is_continued(&first, &head("other")).unwrap_err();
        assert_eq!(refused.exit_code(), 2);
        assert_eq!(line("").unwrap_err().exit_code(), 1);
    }

    #[test]
    fn an_export_goes_on_behind_its_last_line() {
        let head = head("one");
        let deleted = read(&json!({
            "kind": "Deleted", "namespace": "shop", "name": "a", "uid": "", "until": AT,
        }));
        let behind = Lines::behind(&deleted);
        assert!(!behind.is_wanted(&head) && behind.is_wanted(&version("a", 0, "9")));
        let end = read(&json!({
            "kind": "End", "namespace": "shop", "name": "a", "uid": "", "resourceVersion": "99",
            "observedAt": AT,
        }));
        let lines = [
            head,
            version("a", 0, "9"),
            version("a", 0, "10"),
            version("a", 1, "3"),
            end,
            version("b", 0, "1"),
        ];
        assert!(lines.iter().all(|line| Lines::default().is_wanted(line)));
        for at in 0..lines.len() {
            let behind = Lines::behind(&lines[at]);
            let wanted: Vec<_> = lines.iter().map(|line| behind.is_wanted(line)).collect();
            // Lines of the event before the last line are not requested.
            for (other, wanted) in wanted.into_iter().enumerate() {
                let is_asked = other <= 4 || at < 5;
                assert!(
                    !is_asked || at == 5 && other > 0 || wanted == (other > at),
                    "{at} {other}"
                );
            }
        }
    }
}
