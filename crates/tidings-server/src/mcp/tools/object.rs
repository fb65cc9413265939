//! The tool `object`: what happened to one object and its family.

use super::super::answers::{Item, Member, OfObject};
use super::super::arguments::{Arguments, HOUR, Query};
use super::super::errors::CallError;
use super::super::page::{Answer, Line, Page};
use super::super::source::Source;
use super::super::text::{clean, is_cut, line, line_of_known, name};
use super::reading::{coverage, covering, get, only};

/// Maximum members of a family that are told about.
const MEMBERS_MAX: usize = 12;
/// Maximum events of an object in an answer of the timeline.
const ITEMS_MAX: usize = 100;
/// Maximum bytes of a sentence.
const SENTENCE_MAX: usize = 600;

pub(super) async fn object(
    source: &dyn Source,
    arguments: &Arguments,
    max: usize,
) -> Result<Answer, CallError> {
    let (kind, of) = (arguments.required("kind")?, arguments.required("name")?);
    let namespace = arguments.namespace()?;
    // Events about an object of the whole cluster may be in any namespace.
    let mut place = Query::default();
    let cluster = arguments.text("cluster")?.filter(|cluster| *cluster != "-");
    place.add("cluster", cluster.unwrap_or_default());
    let coverage = coverage(source, &place).await?;
    only(&coverage)?;
    let now = arguments.began(coverage.now)?;
    let range = arguments.range(("since", "until"), now, 24 * HOUR)?;
    let coverage = covering(source, &place, range, coverage).await?;
    let cluster = only(&coverage)?;
    let read = async |kind: &str, namespace: &str, name: &str| -> Result<OfObject, CallError> {
        let query = Query::default()
            .with("cluster", cluster)
            .with("namespace", namespace)
            .with("kind", kind)
            .with("name", name);
        get(source, "object", &query.within(range)).await
    };
    let found = read(kind, namespace, of).await?;
    let mut lines = vec![Line::from(clean(&found.sentence, SENTENCE_MAX))];
    let of_event = |item: &Item, text: String| Line {
        is_cut: is_cut(item),
        ..Line::from(text)
    };
    let mut notes = Vec::new();
    let others = |member: &&Member| member.relation != "self";
    if arguments.switch("family")? {
        let mut unread = 0;
        for member in found.family.iter().filter(others).take(MEMBERS_MAX) {
            let (kind, name_of) = (&member.object.kind, &member.object.name);
            let relation = name(&member.relation);
            // Others chose the names: one that cannot be read does not hide the rest.
            let Ok(told) = read(kind, &member.namespace, name_of).await else {
                unread += 1;
                continue;
            };
            let sentence = clean(&told.sentence, SENTENCE_MAX);
            lines.push(format!("{relation} {} {sentence}", name(kind)).into());
            // A deployment's own events say little: the last warning of its pods says more.
            let warning = told.items.iter().find(|item| item.event_type != "Normal");
            lines.extend(
                warning
                    .filter(|_| relation == "owned")
                    .map(|it| of_event(it, line(it, now))),
            );
        }
        if unread > 0 {
            notes.push(format!(
                "{unread} objects of its family could not be read: call again for them."
            ));
        }
        let left = found.family.iter().filter(others).count();
        if left > MEMBERS_MAX {
            let more = left - MEMBERS_MAX;
            notes.push(format!(
                "{more} more objects of its family are not told about."
            ));
        }
    }
    let items = found.items.iter();
    lines.extend(items.map(|item| of_event(item, line_of_known(item, now))));
    if found.items.len() >= ITEMS_MAX {
        notes.push(format!(
            "Only the latest {ITEMS_MAX} events are listed: `search` lists the others."
        ));
    }
    if found.items.is_empty() {
        notes.push(
            "It has no event in this time that you may read. An earlier `since` may find some; \
             `search` with `text` finds its name in other objects' events."
                .to_owned(),
        );
    }
    let page = Page {
        coverage: coverage.line(range),
        notes,
        lines,
        ..Page::default()
    };
    page.starting_at(arguments.cursor()?, now, arguments.limit()?, max)
}
