//! The one renderer of tables: figures as Markdown, by a description of rows and columns.

use super::figure::Figure;

/// How numbers are shown: for those below each bound the factor, the number of decimals, and what
/// follows.
pub(super) type Unit = &'static [(f64, f64, usize, &'static str)];

const ANY: f64 = f64::INFINITY;
const KIB: f64 = 1. / 1024.;
const MIB: f64 = KIB / 1024.;

pub(super) const COUNT: Unit = &[(ANY, 1., 0, "")];
pub(super) const TENTHS: Unit = &[(ANY, 1., 1, "")];
pub(super) const HUNDREDTHS: Unit = &[(ANY, 1., 2, "")];
pub(super) const SHARE: Unit = &[(ANY, 100., 0, " %")];
pub(super) const TIMES: Unit = &[(ANY, 1., 1, " ×")];
pub(super) const TIMES_FINE: Unit = &[(ANY, 1., 2, " ×")];
pub(super) const PER_SECOND: Unit = &[(ANY, 1., 0, "/s")];
pub(super) const NANOSECONDS: Unit = &[(1e3, 1., 0, " ns"), (ANY, 1e-3, 2, " µs")];
pub(super) const MICROSECONDS: Unit = &[(ANY, 1., 0, " µs")];
pub(super) const MICROSECONDS_FINE: Unit = &[(ANY, 1., 1, " µs")];
pub(super) const MILLISECONDS: Unit = &[(10., 1., 1, " ms"), (ANY, 1., 0, " ms")];
pub(super) const MILLISECONDS_FINE: Unit = &[(ANY, 1., 2, " ms")];
pub(super) const TIME: Unit = &[
    (10., 1., 2, " ms"),
    (1e3, 1., 0, " ms"),
    (ANY, 1e-3, 1, " s"),
];
pub(super) const SECONDS: Unit = &[(ANY, 1., 1, " s")];
pub(super) const SECONDS_FINE: Unit = &[(ANY, 1., 2, " s")];
pub(super) const BYTES: Unit = &[(ANY, 1., 0, " B")];
pub(super) const BYTES_FINE: Unit = &[(ANY, 1., 1, " B")];
pub(super) const KIBIBYTES: Unit = &[(ANY, KIB, 0, " KiB")];
pub(super) const MEBIBYTES: Unit = &[(ANY, MIB, 0, " MiB")];
pub(super) const MEBIBYTES_FINE: Unit = &[(ANY, MIB, 1, " MiB")];
pub(super) const MEGABYTES: Unit = &[(ANY, 1e-6, 0, " MB")];
/// A whole number with a comma before each three digits.
pub(super) const GROUPED: Unit = &[];

/// What a column has in each row.
#[derive(Clone, Copy)]
pub(super) enum Cell {
    /// The row's number of this program.
    Of(&'static str),
    /// How many times better the first program's number is than the second's.
    Better(&'static str, &'static str, Unit),
    /// Another field, of this program or (without a name) of any.
    Field(&'static str, &'static str, Unit),
    /// A field with text.
    Text(&'static str),
}

/// A row: its title, its figures, and the field of its number with the unit.
pub(super) struct Row<'a> {
    pub(super) title: String,
    figures: Vec<&'a Figure>,
    number: (&'static str, Unit),
}

impl Row<'_> {
    fn number(&self, peer: &str, field: &str) -> Option<f64> {
        let mut of_peer = self.figures.iter();
        of_peer.find_map(|figure| {
            let is_of_peer = peer.is_empty() || figure.peer() == peer;
            figure.number(field).filter(|_| is_of_peer)
        })
    }

    fn cell(&self, cell: Cell) -> String {
        let (field, unit) = self.number;
        let (number, unit) = match cell {
            Cell::Of(peer) => (self.number(peer, field), unit),
            Cell::Field(peer, field, unit) => (self.number(peer, field), unit),
            Cell::Better(ours, theirs, unit) => {
                let (ours, theirs) = (self.number(ours, field), self.number(theirs, field));
                let is_rate = field.ends_with("per_second");
                let better = if is_rate {
                    ratio(ours, theirs)
                } else {
                    ratio(theirs, ours)
                };
                (better, unit)
            }
            Cell::Text(field) => {
                let found = self.figures.first().map(|figure| figure.text(field));
                return found.unwrap_or_default().to_owned();
            }
        };
        number.map(|number| show(number, unit)).unwrap_or_default()
    }
}

/// A row for each figure.
pub(super) fn each(figures: &[Figure]) -> Vec<Row<'_>> {
    let rows = figures.iter();
    rows.map(|figure| row(figure.text("name"), vec![figure], ("", COUNT)))
        .collect()
}

/// A row for each name of figures that have one of these fields. The first that one has counts.
pub(super) fn by_name<'a>(figures: &'a [Figure], fields: &[(&'static str, Unit)]) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for figure in figures {
        let name = figure.text("name");
        if rows.iter().any(|row| row.title == name) {
            continue;
        }
        let named: Vec<_> = figures
            .iter()
            .filter(|it| it.text("name") == name)
            .collect();
        let has = |field: &str| named.iter().any(|it| it.number(field).is_some());
        if let Some(number) = fields.iter().copied().find(|(field, _)| has(field)) {
            rows.push(row(name, named, number));
        }
    }
    rows
}

/// Rows by title, name of the figures, field and unit.
pub(super) fn described<'a, T: AsRef<str> + 'a>(
    figures: &'a [Figure],
    rows: &'a [(T, T, &'static str, Unit)],
) -> impl Iterator<Item = Row<'a>> {
    rows.iter().map(|(title, name, field, unit)| {
        let named = figures.iter().filter(|it| it.text("name") == name.as_ref());
        row(title.as_ref(), named.collect(), (field, unit))
    })
}

fn row<'a>(title: &str, figures: Vec<&'a Figure>, number: (&'static str, Unit)) -> Row<'a> {
    Row {
        title: title.to_owned(),
        figures,
        number,
    }
}

/// The figures, each with this rate divided by a peer's as its `ratio`.
pub(super) fn compared(figures: &[Figure], rate: &str, peer: &str) -> Vec<Figure> {
    let mut theirs = figures.iter().filter(|figure| figure.peer() == peer);
    let theirs = theirs.find_map(|figure| figure.number(rate));
    let ratio = |figure: &Figure| ratio(figure.number(rate), theirs);
    let with_ratio = figures.iter().map(|figure| match ratio(figure) {
        Some(ratio) => figure.clone().with("ratio", ratio),
        None => figure.clone(),
    });
    with_ratio.collect()
}

/// A table with this title above its rows. Rows without any number are left out.
pub(super) fn table<'a>(
    title: &str,
    columns: &[(&str, Cell)],
    rows: impl IntoIterator<Item = Row<'a>>,
) -> String {
    let (mut head, mut line) = (String::from("|"), String::from("|---|"));
    let titles = columns.iter().map(|(title, _)| *title);
    for title in std::iter::once(title).chain(titles) {
        let space = if title.is_empty() { "" } else { " " };
        head.extend([space, title, " |"]);
    }
    for (_, cell) in columns {
        line += if matches!(cell, Cell::Text(_)) {
            "---|"
        } else {
            "--:|"
        };
    }
    let mut table = format!("{head}\n{line}\n");
    for row in rows {
        let cells: Vec<_> = columns.iter().map(|(_, cell)| row.cell(*cell)).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            table.extend(["| ", &row.title, " | ", &cells.join(" | "), " |\n"]);
        }
    }
    table
}

fn ratio(above: Option<f64>, below: Option<f64>) -> Option<f64> {
    let (above, below) = above.zip(below)?;
    (below > 0.).then(|| above / below)
}

pub(super) fn show(number: f64, unit: Unit) -> String {
    let Some((_, factor, decimals, behind)) = unit.iter().find(|(bound, ..)| number < *bound)
    else {
        return grouped(number as u64);
    };
    format!("{:.*}{behind}", decimals, number * factor)
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
