//! Prints events in each output format.
//!
//! Every match on [`Rows`] or [`Objects`] names all variants, so that the compiler finds the places
//! to extend for a new one.

use std::io::{self, Write};

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use serde_saphyr::SerializeError;

use crate::event::Event;
use crate::format::{Format, Objects, Rows};
use crate::jsonpath::EvaluationError;
use crate::table::{Cell, Column, Look, Screen, Table};
use crate::text::Escaping;
use crate::time_form::TimeForm;

/// The optional columns of a table.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each column is there or not, whatever others are"
)]
#[derive(Clone, Copy, Debug, Default)]
struct More {
    /// Whether to show the cluster of an archive.
    clusters: bool,
    namespaces: bool,
    /// Whether to show count and resourceVersion.
    versions: bool,
    /// Whether to show the events' labels.
    labels: bool,
}

/// The reason why events cannot be printed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrintError {
    /// The output cannot be written.
    #[error("write the output: {0}")]
    Output(#[from] io::Error),
    /// A template or a custom column cannot be applied to an event.
    #[error("fill in the template: {0}")]
    Evaluation(#[from] EvaluationError),
}

/// Prints events.
#[derive(Debug)]
pub struct Printer {
    format: Format,
    screen: Screen,
    more: More,
    headings: bool,
    /// Texts by which the events were selected, in lower case.
    wanted: Vec<String>,
    /// The form of times; `None` until it is chosen for the first events.
    time_form: Option<TimeForm>,
    /// The table; `None` until the first rows are printed.
    table: Option<Table>,
}

impl Printer {
    /// Makes a printer; `namespaces` adds the namespace column.
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
            wanted: Vec::new(),
            time_form: None,
            table: None,
        }
    }

    /// Adds a column of clusters, for events of several.
    #[must_use]
    pub fn with_clusters(mut self) -> Self {
        self.more.clusters = true;
        self
    }

    /// Adds columns of counts and resourceVersions, for the versions of one event.
    #[must_use]
    pub fn with_versions(mut self) -> Self {
        self.more.versions = true;
        self
    }

    /// Adds a column of labels.
    #[must_use]
    pub fn with_labels(mut self) -> Self {
        self.more.labels = true;
        self
    }

    /// Omits the headings.
    #[must_use]
    pub fn without_headings(mut self) -> Self {
        self.headings = false;
        self
    }

    /// Shows the line of a message that contains one of these texts, which are in lower case.
    #[must_use]
    pub fn with_wanted(mut self, wanted: &[String]) -> Self {
        self.wanted = wanted.to_vec();
        self
    }

    /// Shows times in this form. By default it is [chosen](TimeForm::of) for the first events.
    #[must_use]
    pub fn with_time_form(mut self, form: Option<TimeForm>) -> Self {
        self.time_form = form;
        self
    }

    /// Whether the format prints something for an empty list.
    pub fn says_nothing_found(&self) -> bool {
        match &self.format {
            Format::Rows(Rows::Table | Rows::Wide | Rows::Custom(_))
            | Format::Objects(Objects::JsonLines | Objects::Name) => false,
            Format::Objects(Objects::Json | Objects::Yaml | Objects::Template(_)) => true,
        }
    }

    /// Prints a complete list of events, and a note if a table was cut.
    ///
    /// # Errors
    /// The output cannot be written, or a template cannot be applied.
    pub fn list(
        &mut self,
        events: Vec<Event>,
        now: Timestamp,
        out: &mut dyn Write,
    ) -> Result<(), PrintError> {
        match &self.format {
            Format::Rows(_) => {
                self.rows(&events, now, out)?;
                let cut = self
                    .table
                    .as_ref()
                    .and_then(|table| table.cut("-o wide shows all"));
                if let Some(cut) = cut {
                    writeln!(out, "{cut}")?;
                }
                Ok(())
            }
            Format::Objects(Objects::Json) => self.json(&List::of(&events), out),
            Format::Objects(Objects::Yaml) => self.yaml(&List::of(&events), out),
            Format::Objects(Objects::Template(template)) => {
                let items: Vec<Value> = events.into_iter().map(Event::into_value).collect();
                let list = json!({"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}});
                self.text(&template.render(&list)?, out)
            }
            Format::Objects(form @ (Objects::JsonLines | Objects::Name)) => events
                .iter()
                .try_for_each(|event| self.object(form, event, out)),
        }
    }

    /// Prints some events of a watch. As in kubectl, the headings are printed with the first event.
    ///
    /// # Errors
    /// The output cannot be written, or a template cannot be applied.
    pub fn some(
        &mut self,
        events: &[Event],
        now: Timestamp,
        out: &mut dyn Write,
    ) -> Result<(), PrintError> {
        match &self.format {
            Format::Rows(_) if events.is_empty() => Ok(()),
            Format::Rows(_) => self.rows(events, now, out),
            Format::Objects(form) => events
                .iter()
                .try_for_each(|event| self.object(form, event, out)),
        }
    }

    fn object(&self, form: &Objects, event: &Event, out: &mut dyn Write) -> Result<(), PrintError> {
        match form {
            Objects::Json => self.json(event.value(), out),
            Objects::Yaml => {
                out.write_all(b"---\n")?;
                self.yaml(event.value(), out)
            }
            Objects::JsonLines => self.text(&format!("{}\n", event.value()), out),
            Objects::Name => self.text(&format!("event/{}\n", event.name()), out),
            Objects::Template(template) => self.text(&template.render(event.value())?, out),
        }
    }

    /// Writes untrusted text, escaped if the output is a terminal.
    fn safely(
        &self,
        out: &mut dyn Write,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), PrintError> {
        let written = if self.screen.is_terminal {
            write(&mut Escaping::new(out))
        } else {
            write(out)
        };
        Ok(written?)
    }

    fn text(&self, text: &str, out: &mut dyn Write) -> Result<(), PrintError> {
        self.safely(out, |out| out.write_all(text.as_bytes()))
    }

    fn json(&self, value: &impl Serialize, out: &mut dyn Write) -> Result<(), PrintError> {
        self.safely(out, |out| {
            serde_json::to_writer_pretty(&mut *out, value)?;
            writeln!(out)
        })
    }

    fn yaml(&self, value: &impl Serialize, out: &mut dyn Write) -> Result<(), PrintError> {
        self.safely(out, |mut out| {
            serde_saphyr::to_io_writer(&mut out, value).map_err(|error| match error {
                // The reader may have closed the pipe.
                SerializeError::IO { error } => error,
                error => io::Error::other(error),
            })
        })
    }

    fn rows(
        &mut self,
        events: &[Event],
        now: Timestamp,
        out: &mut dyn Write,
    ) -> Result<(), PrintError> {
        let Format::Rows(form) = &self.format else {
            return Ok(());
        };
        let more = self.more;
        let wanted = &self.wanted;
        if self.time_form.is_none() && !events.is_empty() {
            self.time_form = Some(TimeForm::of(events.iter().map(Event::last_seen), now));
        }
        let age = TimeForm::Age;
        let time_form = self.time_form.as_ref().unwrap_or(&age);
        let (screen, headings) = (self.screen, self.headings);
        let table = self.table.get_or_insert_with(|| {
            let table = Table::new(form.columns(more), screen);
            if headings {
                table
            } else {
                table.without_headings()
            }
        });
        if let Rows::Custom(columns) = form {
            let rows = events.iter().map(|event| columns.row(event.value()));
            let rows: Vec<_> = rows.collect::<Result<_, _>>()?;
            table.print(rows.into_iter(), out)?;
        } else {
            let rows = events.iter();
            let rows = rows.map(|event| form.row(event, more, (time_form, now), wanted));
            table.print(rows, out)?;
        }
        Ok(())
    }
}

impl Rows {
    fn columns(&self, more: More) -> Vec<Column> {
        let is_wide = match self {
            Self::Custom(columns) => return columns.columns(),
            Self::Wide => true,
            Self::Table => false,
        };
        let columns = [
            (more.clusters, Column::of_names("CLUSTER")),
            (more.namespaces, Column::of_names("NAMESPACE")),
            (more.versions, Column::new("VERSION")),
            (more.versions, Column::new("COUNT")),
            (true, Column::new("LAST SEEN")),
            (true, Column::of_names("TYPE")),
            (true, Column::of_names("REASON")),
            (true, Column::of_names("OBJECT")),
            (is_wide, Column::of_names("SUBOBJECT")),
            (is_wide, Column::of_names("SOURCE")),
            (true, Column::of_texts("MESSAGE")),
            (is_wide, Column::new("FIRST SEEN")),
            (is_wide, Column::new("COUNT")),
            (is_wide, Column::of_names("NAME")),
            (more.labels, Column::of_names("LABELS")),
        ];
        let columns = columns.into_iter().filter(|(is_there, _)| *is_there);
        columns.map(|(_, column)| column).collect()
    }

    fn row(
        &self,
        event: &Event,
        more: More,
        (time_form, now): (&TimeForm, Timestamp),
        wanted: &[String],
    ) -> Vec<Cell> {
        let look = look(event);
        let mut row = Vec::new();
        if more.clusters {
            row.push(Cell::new(event.cluster()));
        }
        if more.namespaces {
            row.push(Cell::new(event.namespace()));
        }
        if more.versions {
            let version = event.revision().unwrap_or_default().to_string();
            row.extend([Cell::new(&version), Cell::new(&event.count().to_string())]);
        }
        row.extend([
            Cell::new(&time_form.seen(event, now)).look(Look::Dim),
            Cell::new(event.event_type()).look(look),
            Cell::new(event.reason()).look(look),
            Cell::new(&event.object()),
        ]);
        let message = Cell::of_line_with(event.message(), wanted);
        if matches!(self, Self::Wide) {
            let source = match event.host() {
                "" => event.component().to_owned(),
                host => format!("{}, {host}", event.component()),
            };
            row.extend([
                Cell::new(event.field_path()),
                Cell::new(&source),
                message,
                Cell::new(&time_form.text(event.first_seen(), now)),
                Cell::new(&event.count().to_string()),
                Cell::new(event.name()),
            ]);
        } else {
            row.push(message);
        }
        if more.labels {
            row.push(Cell::new(&event.labels()));
        }
        row
    }
}

fn look(event: &Event) -> Look {
    if event.is_warning() {
        Look::Warning
    } else {
        Look::Plain
    }
}

/// The List object that kubectl makes of several events.
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

/// Prints the events section of `kubectl describe` (`DescribeEvents`), exactly as kubectl does if
/// times are ages. The events must be sorted. Events of several objects have one more column, with
/// the objects.
///
/// # Errors
/// The output cannot be written.
pub fn describe(
    events: &[Event],
    is_of_several: bool,
    (time_form, now): (&TimeForm, Timestamp),
    screen: Screen,
    out: &mut dyn Write,
) -> io::Result<()> {
    if events.is_empty() {
        return writeln!(out, "Events:  <none>");
    }
    let (when, line) = match time_form {
        // kubectl's underline is shorter than the heading here.
        TimeForm::Age => ("Age", "----"),
        TimeForm::Time(_) => ("Last Seen", "---------"),
    };
    let of_object = |column| is_of_several.then_some(column);
    let columns = [
        Some("Type"),
        Some("Reason"),
        Some(when),
        of_object("Object"),
        Some("From"),
        Some("Message"),
    ];
    let columns = columns.into_iter().flatten();
    let columns = columns.map(|column| Column::new(column).look(Look::Plain));
    // A description is not fitted to the terminal.
    let screen = Screen {
        width: None,
        ..screen
    };
    let lines = [
        Some("----"),
        Some("------"),
        Some(line),
        of_object("------"),
        Some("----"),
        Some("-------"),
    ];
    let lines = lines.into_iter().flatten().map(Cell::new);
    let first = events.first().map(Event::object_namespace);
    let is_of_one_namespace = events
        .iter()
        .all(|event| Some(event.object_namespace()) == first);
    let rows = events.iter().map(|event| {
        let look = look(event);
        let lines: Vec<&str> = event.message().lines().map(str::trim).collect();
        let message = match event.field_path() {
            "" => lines.join(" "),
            path => format!("{path}: {}", lines.join(" ")),
        };
        let mut row = vec![
            Cell::new(event.event_type()).look(look),
            Cell::new(event.reason()).look(look),
            Cell::new(&time_form.seen(event, now)),
        ];
        if is_of_several {
            let object = match event.object_namespace() {
                namespace if !namespace.is_empty() && !is_of_one_namespace => {
                    format!("{} in {namespace}", event.object())
                }
                _ => event.object(),
            };
            row.push(Cell::new(&object));
        }
        row.push(Cell::new(event.component()));
        row.push(Cell::new(&message));
        row
    });
    writeln!(out, "Events:")?;
    let mut table = Table::new(columns.collect(), screen).with_gap(2, "  ");
    table.print(std::iter::once(lines.collect()).chain(rows), out)
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

    /// Every format returns the error of a closed pipe unchanged.
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
                let is_closed = matches!(&error, PrintError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe);
                assert!(is_closed, "{format}: {error}");
            }
        }
    }

    #[test]
    fn lines_printed_later_stay_in_line() {
        let now = "2026-03-04T05:20:00Z".parse().unwrap();
        let mut printer = Printer::new(Format::default(), Screen::default(), false);
        let mut out = Vec::new();
        // kubectl prints no headings before the first row (`printTable`).
        printer.some(&[], now, &mut out).unwrap();
        assert!(out.is_empty(), "{out:?}");
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

    /// Rows of an incident two weeks ago, at the widths of narrow terminals. The distinguishing
    /// parts of a row are visible, and a note says that others are cut.
    #[test]
    fn a_narrow_table_tells_rows_apart() {
        let event = |pod: &str, second: u32| {
            Event::new(json!({
                "metadata": {"name": "x", "namespace": "kube-controller-manager-operator"},
                "involvedObject": {"kind": "Pod", "name": pod},
                "reason": "FailedCreatePodSandBox", "type": "Warning",
                "message": format!("Failed to create pod sandbox: rpc error\nplugin type=\"multus\" of {pod}: no route"),
                "lastTimestamp": format!("2026-02-18T05:06:{second:02}Z"), "count": 1,
            }))
        };
        let pods = [
            "kube-controller-manager-5d4f8c7b9-x7k2p",
            "kube-controller-manager-5d4f8c7b9-q2w4e",
        ];
        let now = "2026-03-04T05:20:00Z".parse().unwrap();
        for width in [30, 40, 60, 80, 100, 120, 160] {
            let screen = Screen {
                width: Some(width),
                ..Screen::default()
            };
            let mut printer =
                Printer::new(Format::default(), screen, true).with_wanted(&["no route".to_owned()]);
            let events = pods
                .iter()
                .zip([1, 2])
                .map(|(pod, second)| event(pod, second));
            let mut out = Vec::new();
            printer.list(events.collect(), now, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            for part in [
                "x7k2p",
                "q2w4e",
                "05:06:01Z",
                "05:06:02Z",
                "Warning",
                "andBox",
                "perator",
                "no route",
            ] {
                assert!(text.contains(part), "{width}: no {part} in\n{text}");
            }
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            let says_so = text.ends_with("\n… cut: -o wide shows all\n");
            let cuts = text.matches('…').count();
            assert_eq!(says_so, cuts > 0, "{width}:\n{text}");
        }
    }

    #[test]
    fn labels_are_a_column_of_their_own() {
        let now = "2026-03-04T05:20:00Z".parse().unwrap();
        let mut events = events();
        let mut labelled = events.remove(1).into_value();
        labelled["metadata"]["labels"] = json!({"app": "web", "tier": "front"});
        let events = vec![Event::new(labelled), events.remove(0)];
        let mut out = Vec::new();
        let mut printer = Printer::new(Format::default(), Screen::default(), false).with_labels();
        printer.list(events, now, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let ends = text
            .lines()
            .map(|line| line.rsplit("   ").next().unwrap_or_default());
        assert_eq!(
            ends.collect::<Vec<_>>(),
            ["LABELS", "app=web,tier=front", "<none>"]
        );
    }

    #[test]
    fn a_description_is_kubectls() {
        let now = "2026-03-04T05:20:00Z".parse().unwrap();
        let described = |events: &[Event]| {
            let mut out = Vec::new();
            let form = TimeForm::of(events.iter().map(Event::last_seen), now);
            describe(events, false, (&form, now), Screen::default(), &mut out).unwrap();
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
        let incident = ["2026-02-18T05:06:00Z", "2026-02-18T05:06:07Z"].map(|last| {
            Event::new(json!({"reason": "OOMKilling", "type": "Warning", "message": "out of memory", "lastTimestamp": last}))
        });
        assert_eq!(
            described(&incident),
            "Events:\n\
             \x20 Type     Reason      Last Seen             From  Message\n\
             \x20 ----     ------      ---------             ----  -------\n\
             \x20 Warning  OOMKilling  2026-02-18T05:06:00Z        out of memory\n\
             \x20 Warning  OOMKilling  2026-02-18T05:06:07Z        out of memory\n"
        );
    }

    #[test]
    fn a_description_of_several_objects_names_them() {
        let now = "2026-03-04T05:20:00Z".parse().unwrap();
        let described = |namespaces: [&str; 2]| {
            let events = namespaces.map(|namespace| {
                let object = json!({"kind": "Pod", "name": "web-0"});
                Event::new(json!({"metadata": {"namespace": namespace}, "involvedObject": object}))
            });
            let mut out = Vec::new();
            let form = (&TimeForm::Age, now);
            describe(&events, true, form, Screen::default(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let lines = |text: String| {
            text.lines()
                .map(|line| line.trim_end().to_owned())
                .collect()
        };
        let same: Vec<String> = lines(described(["shop", "shop"]));
        assert_eq!(
            same[1..4],
            [
                "  Type  Reason  Age        Object     From  Message",
                "  ----  ------  ----       ------     ----  -------",
                "                <unknown>  Pod/web-0",
            ]
        );
        let apart: Vec<String> = lines(described(["shop", "bank"]));
        assert!(apart[3].ends_with("Pod/web-0 in shop"), "{apart:#?}");
        assert!(apart[4].ends_with("Pod/web-0 in bank"), "{apart:#?}");
    }
}
