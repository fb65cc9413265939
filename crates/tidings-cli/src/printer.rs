//! Printing of events in each output format.
//!
//! Every match on [`Rows`] or [`Objects`] names all variants, so that the compiler asks for a new
//! one.

use std::io::{self, Write};

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use serde_saphyr::SerializeError;

use crate::event::{Event, age};
use crate::format::{Format, Objects, Rows};
use crate::text::{Cell, Escaping, Layout, Look, Screen};

/// Optional columns.
#[derive(Clone, Copy, Debug, Default)]
struct More {
    /// The cluster of an archive.
    clusters: bool,
    namespaces: bool,
    /// Count and resourceVersion.
    versions: bool,
}

/// Prints events.
#[derive(Debug)]
pub struct Printer {
    format: Format,
    screen: Screen,
    more: More,
    headings: bool,
    layout: Layout,
}

impl Printer {
    /// A printer; `namespaces` adds their column.
    pub fn new(format: Format, screen: Screen, namespaces: bool) -> Self {
        let is_whole = match &format {
            Format::Rows(Rows::Table) | Format::Objects(_) => false,
            // Wide output is not cut, as in kubectl.
            Format::Rows(Rows::Wide | Rows::Custom(_)) => true,
        };
        let screen = if is_whole {
            Screen {
                width: None,
                ..screen
            }
        } else {
            screen
        };
        Self {
            format,
            screen,
            more: More {
                namespaces,
                ..More::default()
            },
            headings: true,
            layout: Layout::default(),
        }
    }

    /// With a column of clusters, for events of several.
    #[must_use]
    pub fn with_clusters(mut self) -> Self {
        self.more.clusters = true;
        self
    }

    /// With columns of counts and versions, for the versions of one event.
    #[must_use]
    pub fn with_versions(mut self) -> Self {
        self.more.versions = true;
        self
    }

    /// Without headings.
    #[must_use]
    pub fn without_headings(mut self) -> Self {
        self.headings = false;
        self
    }

    /// Whether an empty list has output of its own in this format.
    pub fn says_nothing_found(&self) -> bool {
        match &self.format {
            Format::Rows(Rows::Table | Rows::Wide | Rows::Custom(_))
            | Format::Objects(Objects::JsonLines | Objects::Name) => false,
            Format::Objects(Objects::Json | Objects::Yaml | Objects::Template(_)) => true,
        }
    }

    /// Prints a complete list of events.
    ///
    /// # Errors
    /// Of the output.
    pub fn list(
        &mut self,
        events: Vec<Event>,
        now: Timestamp,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match &self.format {
            Format::Rows(_) => self.rows(&events, now, out),
            Format::Objects(Objects::Json) => self.json(&List::of(&events), out),
            Format::Objects(Objects::Yaml) => self.yaml(&List::of(&events), out),
            Format::Objects(Objects::Template(template)) => {
                let items: Vec<Value> = events.into_iter().map(Event::into_value).collect();
                let list = json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}});
                self.text(&template.render(&list), out)
            }
            Format::Objects(form @ (Objects::JsonLines | Objects::Name)) => events
                .iter()
                .try_for_each(|event| self.object(form, event, out)),
        }
    }

    /// Prints some events of a watch.
    ///
    /// # Errors
    /// Of the output.
    pub fn some(
        &mut self,
        events: &[Event],
        now: Timestamp,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match &self.format {
            Format::Rows(_) => self.rows(events, now, out),
            Format::Objects(form) => events
                .iter()
                .try_for_each(|event| self.object(form, event, out)),
        }
    }

    fn object(&self, form: &Objects, event: &Event, out: &mut dyn Write) -> io::Result<()> {
        match form {
            Objects::Json => self.json(event.value(), out),
            Objects::Yaml => {
                out.write_all(b"---\n")?;
                self.yaml(event.value(), out)
            }
            Objects::JsonLines => self.text(&format!("{}\n", event.value()), out),
            Objects::Name => self.text(&format!("event/{}\n", event.name()), out),
            Objects::Template(template) => self.text(&template.render(event.value()), out),
        }
    }

    /// Writes text from outside, escaped if the output is a terminal.
    fn safely(
        &self,
        out: &mut dyn Write,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.screen.is_terminal {
            write(&mut Escaping::new(out))
        } else {
            write(out)
        }
    }

    fn text(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        self.safely(out, |out| out.write_all(text.as_bytes()))
    }

    fn json(&self, value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
        self.safely(out, |out| {
            serde_json::to_writer_pretty(&mut *out, value)?;
            writeln!(out)
        })
    }

    fn yaml(&self, value: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
        self.safely(out, |mut out| {
            serde_saphyr::to_io_writer(&mut out, value).map_err(|error| match error {
                // The reader may have closed the pipe.
                SerializeError::IO { error } => error,
                error => io::Error::other(error),
            })
        })
    }

    /// Rows are made twice, first to measure their width, which costs less than to keep them.
    fn rows(&mut self, events: &[Event], now: Timestamp, out: &mut dyn Write) -> io::Result<()> {
        let Format::Rows(form) = &self.format else {
            return Ok(());
        };
        let headings = std::mem::take(&mut self.headings).then(|| form.headings(self.more));
        if let Some(row) = &headings {
            self.layout.grow(row);
        }
        for event in events {
            self.layout.grow(&form.row(event, self.more, now));
        }
        if let Some(row) = headings {
            writeln!(out, "{}", self.layout.line(&row, self.screen))?;
        }
        for event in events {
            let row = form.row(event, self.more, now);
            writeln!(out, "{}", self.layout.line(&row, self.screen))?;
        }
        Ok(())
    }
}

impl Rows {
    /// The headings.
    fn headings(&self, more: More) -> Vec<Cell> {
        let names: &[&str] = match self {
            Self::Custom(columns) => return columns.headings(),
            Self::Wide => &[
                "LAST SEEN",
                "TYPE",
                "REASON",
                "OBJECT",
                "SUBOBJECT",
                "SOURCE",
                "MESSAGE",
                "FIRST SEEN",
                "COUNT",
                "NAME",
            ],
            Self::Table => &["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"],
        };
        let more = [
            (more.clusters, "CLUSTER"),
            (more.namespaces, "NAMESPACE"),
            (more.versions, "VERSION"),
            (more.versions, "COUNT"),
        ];
        let more = more.iter().filter(|(is_there, _)| *is_there);
        more.map(|(_, name)| name)
            .chain(names)
            .map(|name| Cell::new(name).look(Look::Heading))
            .collect()
    }

    fn row(&self, event: &Event, more: More, now: Timestamp) -> Vec<Cell> {
        let look = if event.is_warning() {
            Look::Warning
        } else {
            Look::Plain
        };
        let start = || {
            let cluster = more.clusters.then(|| Cell::new(event.cluster()));
            let namespace = more.namespaces.then(|| Cell::new(event.namespace()));
            let versions = more.versions.then(|| {
                let version = event.revision().unwrap_or_default().to_string();
                [Cell::new(&version), Cell::new(&event.count().to_string())]
            });
            let more = cluster.into_iter().chain(namespace);
            let more = more.chain(versions.into_iter().flatten());
            more.chain([
                Cell::new(&event.age(now)).look(Look::Dim),
                Cell::new(event.event_type()).look(look),
                Cell::new(event.reason()).look(look),
                Cell::new(&event.object()),
            ])
        };
        match self {
            Self::Custom(columns) => columns.row(event.value()),
            Self::Table => start().chain([Cell::new(event.message())]).collect(),
            Self::Wide => {
                let source = match event.host() {
                    "" => event.component().to_owned(),
                    host => format!("{}, {host}", event.component()),
                };
                let rest = [
                    Cell::new(event.field_path()),
                    Cell::new(&source),
                    Cell::new(event.message()),
                    Cell::new(&age(event.first_seen(), now)),
                    Cell::new(&event.count().to_string()),
                    Cell::new(event.name()),
                ];
                start().chain(rest).collect()
            }
        }
    }
}

/// The List that kubectl makes of several events.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    api_version: &'static str,
    items: Items<'a>,
    kind: &'static str,
    metadata: ListMeta,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: &'static str,
}

struct Items<'a>(&'a [Event]);

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Event::value))
    }
}

impl<'a> List<'a> {
    fn of(events: &'a [Event]) -> Self {
        Self {
            api_version: "v1",
            items: Items(events),
            kind: "List",
            metadata: ListMeta {
                resource_version: "",
            },
        }
    }
}

/// Prints the events section of `kubectl describe` (`DescribeEvents`). The events have to be in
/// order.
///
/// # Errors
/// Of the output.
pub fn describe(
    events: &[Event],
    now: Timestamp,
    screen: Screen,
    out: &mut dyn Write,
) -> io::Result<()> {
    if events.is_empty() {
        return writeln!(out, "Events:  <none>");
    }
    let headings = ["Type", "Reason", "Age", "From", "Message"];
    let mut rows = vec![
        headings.map(Cell::new).to_vec(),
        // kubectl's own: as long as the headings, but for Age.
        ["----", "------", "----", "----", "-------"]
            .map(Cell::new)
            .to_vec(),
    ];
    rows.extend(events.iter().map(|event| {
        let look = if event.is_warning() {
            Look::Warning
        } else {
            Look::Plain
        };
        let lines: Vec<&str> = event.message().lines().map(str::trim).collect();
        let message = match event.field_path() {
            "" => lines.join(" "),
            path => format!("{path}: {}", lines.join(" ")),
        };
        vec![
            Cell::new(event.event_type()).look(look),
            Cell::new(event.reason()).look(look),
            Cell::new(&event.age(now)),
            Cell::new(event.component()),
            Cell::new(&message),
        ]
    }));
    let mut layout = Layout::with_gap(2);
    for row in &rows {
        layout.grow(row);
    }
    // A description is printed whole: nothing is fitted.
    let screen = Screen {
        width: None,
        ..screen
    };
    writeln!(out, "Events:")?;
    for row in &rows {
        writeln!(out, "  {}", layout.line(row, screen))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Vec<Event> {
        [
            json!({
                "metadata": {"name": "web.1", "namespace": "shop"},
                "involvedObject": {"kind": "Pod", "name": "web", "fieldPath": "spec.containers{nginx}"},
                "reason": "BackOff", "message": "Back-off\nrestarting", "type": "Warning",
                "source": {"component": "kubelet", "host": "node-1"},
                "firstTimestamp": "2026-03-04T05:00:00Z", "lastTimestamp": "2026-03-04T05:06:00Z", "count": 7,
            }),
            json!({
                "metadata": {"name": "yes", "namespace": "shop"},
                "involvedObject": {"kind": "Node", "name": "n1"},
                "reason": "Ready", "message": "1", "type": "Normal", "reportingComponent": "node-controller",
                "eventTime": "2026-03-04T05:10:00.000000Z",
            }),
        ]
        .map(Event::new)
        .into()
    }

    fn print(format: &str, namespaces: bool) -> String {
        let now = "2026-03-04T05:20:00Z".parse().unwrap();
        let mut printer = Printer::new(format.parse().unwrap(), Screen::default(), namespaces);
        let mut out = Vec::new();
        printer.list(events(), now, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn tables() {
        assert_eq!(
            print("table", true),
            "NAMESPACE   LAST SEEN           TYPE      REASON    OBJECT    MESSAGE\n\
             shop        14m (x7 over 20m)   Warning   BackOff   Pod/web   Back-off...\n\
             shop        10m                 Normal    Ready     Node/n1   1\n"
        );
        assert_eq!(
            print("wide", false),
            "LAST SEEN           TYPE      REASON    OBJECT    SUBOBJECT                SOURCE            MESSAGE       FIRST SEEN   COUNT   NAME\n\
             14m (x7 over 20m)   Warning   BackOff   Pod/web   spec.containers{nginx}   kubelet, node-1   Back-off...   20m          7       web.1\n\
             10m                 Normal    Ready     Node/n1                            node-controller   1             10m          1       yes\n"
        );
        assert_eq!(
            print("custom-columns=NAME:.metadata.name,N:.count", true),
            "NAME    N\nweb.1   7\nyes     <none>\n"
        );
        assert_eq!(print("name", true), "event/web.1\nevent/yes\n");
        assert_eq!(print("jsonpath={.items[*].reason}", true), "BackOff Ready");
    }

    #[test]
    fn what_is_printed_for_programs_is_read_back_whole() {
        let whole = serde_json::to_value(List::of(&events())).unwrap();
        let json: Value = serde_json::from_str(&print("json", false)).unwrap();
        assert_eq!(json, whole);
        let yaml: Value = serde_saphyr::from_str(&print("yaml", false)).unwrap();
        assert_eq!(yaml, whole);
        let lines: Vec<Value> = print("jsonl", false)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines, whole["items"].as_array().unwrap().clone());
    }

    /// Of a pipe whose reader has read enough, each form says so.
    #[test]
    fn an_error_of_the_output_is_given_as_it_is() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let now = "2026-03-04T05:20:00Z".parse().unwrap();
        for is_terminal in [false, true] {
            for format in [
                "table",
                "json",
                "yaml",
                "jsonl",
                "name",
                "jsonpath={.items}",
            ] {
                let screen = Screen {
                    is_terminal,
                    ..Screen::default()
                };
                let mut printer = Printer::new(format.parse().unwrap(), screen, true);
                let error = printer.list(events(), now, &mut Closed).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{format}");
            }
        }
    }

    #[test]
    fn lines_printed_later_stay_in_line() {
        let now = "2026-03-04T05:20:00Z".parse().unwrap();
        let mut printer = Printer::new(Format::default(), Screen::default(), false);
        let mut out = Vec::new();
        for event in events() {
            printer.some(&[event], now, &mut out).unwrap();
        }
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "LAST SEEN           TYPE      REASON    OBJECT    MESSAGE\n\
             14m (x7 over 20m)   Warning   BackOff   Pod/web   Back-off...\n\
             10m                 Normal    Ready     Node/n1   1\n"
        );
    }

    #[test]
    fn a_description_is_kubectls() {
        let now = "2026-03-04T05:20:00Z".parse().unwrap();
        let described = |events: &[Event]| {
            let mut out = Vec::new();
            describe(events, now, Screen::default(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            described(&events()),
            "Events:\n\
             \x20 Type     Reason   Age                From             Message\n\
             \x20 ----     ------   ----               ----             -------\n\
             \x20 Warning  BackOff  14m (x7 over 20m)  kubelet          spec.containers{nginx}: Back-off restarting\n\
             \x20 Normal   Ready    10m                node-controller  1\n"
        );
        assert_eq!(described(&[]), "Events:  <none>\n");
    }
}
