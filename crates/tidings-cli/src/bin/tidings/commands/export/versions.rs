//! `tidings export --versions`: copies all versions that an archive has of a cluster, page by page,
//! as the lines that the archive returns.
//!
//! The versions of an event come oldest first, so the last line of an interrupted export says where
//! it continues: after everything in the file, and before everything else. Only deletions, which
//! come first, may then be written twice.

use serde_json::Value;

use super::super::archived;
use super::super::cluster::{CommandError, Server};
use super::file::Target;

/// Copies all lines after the last line of the file; returns how many versions and ends they
/// contain. `first` and `last` are lines of the file.
///
/// # Errors
/// The errors of the server and of the file, and lines of another archive.
pub(super) async fn copy(
    server: &Server,
    lines: Option<(&Value, &Value)>,
    target: &mut Target,
    told: impl Fn(u64),
) -> Result<u64, CommandError> {
    if let Some((first, _)) = lines {
        // Another archive may answer at the same address.
        let page = archived::export(server, &[]).await?;
        is_continued(first, page.lines().next().unwrap_or_default())?;
    }
    let last = lines.map(|(_, last)| last);
    Lines::behind(last).copy(server, target, told).await
}

/// Checks that the file's first line and the export's first line are of the same archive and store.
fn is_continued(first: &Value, head: &str) -> Result<(), CommandError> {
    if first["store"] == line(head)?["store"] {
        return Ok(());
    }
    let why = "continue the export of another archive: export again without --resume";
    Err(CommandError::Usage(why.to_owned()))
}

fn line(text: &str) -> Result<Value, CommandError> {
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

/// The event whose version or end a line is.
fn event(line: &Value) -> Option<String> {
    if line["kind"] == "Deleted" {
        return None;
    }
    let text = |name: &str| line[name].as_str();
    Some(format!("{}/{}", text("namespace")?, text("name")?))
}

fn place(line: &Value) -> Place {
    let version = &line["event"]["metadata"]["resourceVersion"];
    let number = version.as_str().and_then(|text| text.parse().ok());
    let epoch = line["epoch"].as_u64();
    let is_end = line["kind"] == "End";
    (is_end, epoch.unwrap_or(0), number.unwrap_or(0))
}

impl Lines {
    /// Selects the lines after the last line of an interrupted export.
    fn behind(last: Option<&Value>) -> Self {
        Self {
            last: last.and_then(|last| Some((event(last)?, place(last)))),
            has_head: last.is_some(),
        }
    }

    fn is_wanted(&self, line: &Value) -> bool {
        if line["kind"] == "Coverage" {
            return !self.has_head;
        }
        let Some((last, at)) = &self.last else {
            return true;
        };
        event(line).is_none_or(|event| event != *last || place(line) > *at)
    }

    /// Copies the selected lines; returns the number of versions and ends.
    async fn copy(
        &mut self,
        server: &Server,
        target: &mut Target,
        told: impl Fn(u64),
    ) -> Result<u64, CommandError> {
        let from = self.last.as_ref().map(|(event, _)| event.clone());
        let mut query = from.map(|from| ("from", from));
        let mut count = 0;
        loop {
            let pairs = query.iter().map(|(name, value)| (*name, value.as_str()));
            let page = archived::export(server, &pairs.collect::<Vec<_>>()).await?;
            let mut is_whole = false;
            query = None;
            for line in page.lines() {
                let value = self::line(line)?;
                if let Some(more) = value["continue"].as_str() {
                    query = Some(("continue", more.to_owned()));
                    continue;
                }
                is_whole |= value["kind"] == "Complete";
                if self.is_wanted(&value) {
                    target.write_line(line)?;
                    count += u64::from(event(&value).is_some());
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

    fn version(name: &str, epoch: u64, number: &str) -> Value {
        json!({
            "kind": "Version", "namespace": "shop", "name": name, "epoch": epoch,
            "event": {"metadata": {"resourceVersion": number}},
        })
    }

    #[test]
    fn an_export_of_another_archive_is_not_continued() {
        let head = |store: &str| json!({"kind": "Coverage", "store": store, "exportedAt": store});
        let first = head("one");
        assert!(is_continued(&first, &head("one").to_string()).is_ok());
        let refused = is_continued(&first, &head("other").to_string()).unwrap_err();
        assert_eq!(refused.exit_code(), 2);
        let unreadable = is_continued(&first, "").unwrap_err();
        assert_eq!(unreadable.exit_code(), 1);
    }

    #[test]
    fn an_export_goes_on_behind_its_last_line() {
        let head = json!({"kind": "Coverage"});
        let deleted = json!({"kind": "Deleted", "namespace": "shop", "name": "a"});
        let behind = Lines::behind(Some(&deleted));
        assert!(!behind.is_wanted(&head) && behind.is_wanted(&version("a", 0, "9")));
        let end = json!({"kind": "End", "namespace": "shop", "name": "a", "resourceVersion": "99"});
        let lines = [
            head,
            version("a", 0, "9"),
            version("a", 0, "10"),
            version("a", 1, "3"),
            end,
            version("b", 0, "1"),
        ];
        assert!(lines.iter().all(|line| Lines::behind(None).is_wanted(line)));
        for at in 0..lines.len() {
            let behind = Lines::behind(Some(&lines[at]));
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
