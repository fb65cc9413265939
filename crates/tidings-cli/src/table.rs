//! Tables, for terminals and for programs.
//!
//! Invariants: no line is wider than the screen, and no column is omitted. If a row does not fit,
//! texts are cut at their end, then names in their middle. If that is not enough, the row takes
//! several lines.

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;

use console::{Style, measure_text_width, pad_str, truncate_str};

use crate::text::{find, line_with, one_line};

/// Blank space between two columns, unless the screen is too narrow for it.
const GAP: usize = 3;
const NARROW_GAP: usize = 2;
/// A text is not cut below this width while names can be cut.
const TEXT_MIN: usize = 20;
/// A name is not cut below this width; the row takes several lines instead.
const NAME_MIN: usize = 16;
/// Indentation of a row's second and later lines.
const INDENT: usize = 2;
/// The character that replaces the cut part.
const CUT: &str = "…";

/// The properties of a table's output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Screen {
    /// The terminal's width, to which lines are fitted; `None` leaves them whole.
    pub width: Option<usize>,
    /// Whether to print colours.
    pub colors: bool,
    /// Whether the output is a terminal, which would interpret escape sequences in a text. Files
    /// and pipes get every text unchanged.
    pub is_terminal: bool,
}

/// The style of a cell, if colours are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// The terminal's default style.
    #[default]
    Plain,
    /// Less important text.
    Dim,
    /// A heading.
    Heading,
    /// The style of a warning.
    Warning,
}

/// A cell of a table.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// One line of printable text.
    pub text: String,
    /// The cell's style.
    pub look: Look,
    /// The part of the text that stays visible if the text is cut.
    mark: Range<usize>,
}

impl Cell {
    /// Makes a cell of an untrusted text.
    pub fn new(text: &str) -> Self {
        Self {
            text: one_line(text).into_owned(),
            ..Self::default()
        }
    }

    /// Makes a cell of the line of a text that contains one of the `wanted` texts, which are in
    /// lower case. The found part stays visible if the cell is cut.
    pub fn of_line_with(text: &str, wanted: &[String]) -> Self {
        let text = line_with(text, wanted).into_owned();
        let mark = wanted.iter().find_map(|wanted| find(&text, wanted));
        Self {
            mark: mark.unwrap_or_default(),
            text,
            ..Self::default()
        }
    }

    /// The cell in another style.
    #[must_use]
    pub fn look(mut self, look: Look) -> Self {
        self.look = look;
        self
    }
}

/// Which part of a too wide cell is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    /// Nothing, unless the screen itself is narrower: times and numbers.
    Nothing,
    /// The middle: names often begin alike, and differ at their ends.
    Middle,
    /// The end, or the parts far from the [found text](Cell::of_line_with).
    End,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    heading: Cell,
    cut: Cut,
}

impl Column {
    /// Makes a column of short values: times, numbers.
    pub fn new(heading: &str) -> Self {
        Self {
            heading: Cell::new(heading).look(Look::Heading),
            cut: Cut::Nothing,
        }
    }

    /// Makes a column of names.
    pub fn of_names(heading: &str) -> Self {
        Self {
            cut: Cut::Middle,
            ..Self::new(heading)
        }
    }

    /// Makes a column of texts.
    pub fn of_texts(heading: &str) -> Self {
        Self {
            cut: Cut::End,
            ..Self::new(heading)
        }
    }

    /// The column with another style of its heading.
    #[must_use]
    pub fn look(mut self, look: Look) -> Self {
        self.heading.look = look;
        self
    }

    /// The minimum width to which a cell of `width` is cut.
    fn least(&self, width: usize) -> usize {
        match self.cut {
            Cut::Nothing => width,
            Cut::Middle => width.min(NAME_MIN),
            Cut::End => width.min(TEXT_MIN),
        }
    }
}

/// A table. Its columns only grow, so that rows printed later stay aligned with earlier ones.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    screen: Screen,
    widths: Vec<usize>,
    gap: usize,
    margin: &'static str,
    has_headings: bool,
    is_cut: bool,
}

/// The columns of one line of a row, with their widths.
type Line = Vec<(usize, usize)>;

impl Table {
    /// Makes a table with these columns.
    pub fn new(columns: Vec<Column>, screen: Screen) -> Self {
        Self {
            widths: vec![0; columns.len()],
            columns,
            screen,
            gap: GAP,
            margin: "",
            has_headings: true,
            is_cut: false,
        }
    }

    /// Omits the headings.
    #[must_use]
    pub fn without_headings(mut self) -> Self {
        self.has_headings = false;
        self
    }

    /// Sets the number of blanks between columns, three by default, and a text before each line.
    #[must_use]
    pub fn with_gap(mut self, gap: usize, margin: &'static str) -> Self {
        self.gap = gap;
        self.margin = margin;
        self
    }

    /// Prints rows, and the headings before the first of them. `rows` is called twice, first to
    /// measure, which takes less memory than keeping the rows.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn print(
        &mut self,
        rows: impl Iterator<Item = Vec<Cell>> + Clone,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let headings = std::mem::take(&mut self.has_headings).then(|| {
            let headings = self.columns.iter().map(|column| column.heading.clone());
            headings.collect::<Vec<_>>()
        });
        if let Some(row) = &headings {
            self.grow(row);
        }
        for row in rows.clone() {
            self.grow(&row);
        }
        let (lines, gap) = self.lines();
        if let Some(row) = headings {
            self.print_row(&row, &lines, gap, out)?;
        }
        for row in rows {
            self.print_row(&row, &lines, gap, out)?;
        }
        Ok(())
    }

    /// A note that cells were cut, with the option that shows them whole; `None` if nothing was
    /// cut.
    pub fn cut(&self, shows_all: &str) -> Option<String> {
        let width = self.screen.width.filter(|_| self.is_cut)?;
        let said = format!("{CUT} cut: {shows_all}");
        Some(truncate_str(&said, width, CUT).into_owned())
    }

    fn grow(&mut self, row: &[Cell]) {
        for (width, cell) in self.widths.iter_mut().zip(row) {
            *width = (*width).max(measure_text_width(&cell.text));
        }
    }

    /// The lines of each row, and the number of blanks between columns.
    fn lines(&self) -> (Vec<Line>, usize) {
        let Some(room) = self.screen.width else {
            return (vec![line(&self.widths)], self.gap);
        };
        let room = room.saturating_sub(self.margin.len());
        let is_text = |column: &Column| column.cut == Cut::End;
        let is_any = |_: &Column| true;
        let narrow = self.gap.min(NARROW_GAP);
        if let Some(widths) = self.shrunk(room, self.gap, is_text) {
            (vec![line(&widths)], self.gap)
        } else if let Some(widths) = self.shrunk(room, narrow, is_any) {
            (vec![line(&widths)], narrow)
        } else {
            (self.wrapped(room, narrow), narrow)
        }
    }

    /// The widths with which a row fits into one line; texts are shrunk first, then the widest
    /// name.
    fn shrunk(
        &self,
        room: usize,
        gap: usize,
        may_shrink: impl Fn(&Column) -> bool,
    ) -> Option<Vec<usize>> {
        let mut widths = self.widths.clone();
        let gaps = gap * self.columns.len().saturating_sub(1);
        let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(room);
        for (column, width) in self.columns.iter().zip(&mut widths) {
            if column.cut == Cut::End {
                let given = excess.min(*width - column.least(*width));
                *width -= given;
                excess -= given;
            }
        }
        while excess > 0 {
            let columns = self.columns.iter().zip(&mut widths);
            let (_, widest) = columns
                .filter(|(column, width)| may_shrink(column) && column.least(**width) < **width)
                .max_by_key(|(_, width)| **width)?;
            *widest -= 1;
            excess -= 1;
        }
        Some(widths)
    }

    /// Distributes the columns over lines, as many whole columns as fit. A text gets at least half
    /// of the screen.
    fn wrapped(&self, room: usize, gap: usize) -> Vec<Line> {
        let mut lines: Vec<Line> = vec![Line::new()];
        let mut used = 0;
        for (index, (column, width)) in self.columns.iter().zip(&self.widths).enumerate() {
            let wanted = match column.cut {
                Cut::End => (*width).min(room / 2),
                Cut::Nothing | Cut::Middle => *width,
            };
            let mut start = if index == 0 { 0 } else { used + gap };
            if index > 0 && start + wanted > room {
                lines.push(Line::new());
                start = INDENT;
            }
            let width = (*width).min(room.saturating_sub(start)).max(1);
            used = start + width;
            if let Some(line) = lines.last_mut() {
                line.push((index, width));
            }
        }
        lines
    }

    fn print_row(
        &mut self,
        row: &[Cell],
        lines: &[Line],
        gap: usize,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        for (number, line) in lines.iter().enumerate() {
            let mut text = String::from(self.margin);
            if number > 0 {
                text.extend(std::iter::repeat_n(' ', INDENT));
            }
            for (place, (index, width)) in line.iter().enumerate() {
                let (Some(cell), Some(column)) = (row.get(*index), self.columns.get(*index)) else {
                    continue;
                };
                let mut shown = fitted(cell, *width, column.cut);
                self.is_cut |= matches!(shown, Cow::Owned(_));
                if place + 1 < line.len() {
                    shown = Cow::Owned(
                        pad_str(&shown, *width, console::Alignment::Left, None).into_owned(),
                    );
                }
                text.push_str(&paint(&shown, cell.look, self.screen.colors));
                if place + 1 < line.len() {
                    text.extend(std::iter::repeat_n(' ', gap));
                }
            }
            text.truncate(text.trim_end().len());
            if number > 0 && text.is_empty() {
                continue;
            }
            match self.screen.width {
                // The screen is narrower than a gap.
                Some(width) => writeln!(out, "{}", truncate_str(&text, width, CUT))?,
                None => writeln!(out, "{text}")?,
            }
        }
        Ok(())
    }
}

/// All columns in one line.
fn line(widths: &[usize]) -> Line {
    widths.iter().copied().enumerate().collect()
}

/// The text of a cell, fitted to a width.
fn fitted(cell: &Cell, width: usize, cut: Cut) -> Cow<'_, str> {
    let text = cell.text.as_str();
    if measure_text_width(text) <= width {
        return Cow::Borrowed(text);
    }
    let room = width.saturating_sub(1);
    let shown = match cut {
        Cut::Nothing | Cut::Middle => {
            let tail = tail(text, room / 2);
            let head = truncate_str(text, room - measure_text_width(tail), "");
            format!("{head}{CUT}{tail}")
        }
        Cut::End => {
            let marked = text.get(..cell.mark.end).unwrap_or_default();
            if measure_text_width(marked) <= room {
                truncate_str(text, width, CUT).into_owned()
            } else {
                let before = marked.len() - tail(marked, room.saturating_sub(1)).len();
                let from = text.get(before.min(cell.mark.start)..).unwrap_or(text);
                truncate_str(&format!("{CUT}{from}"), width, CUT).into_owned()
            }
        }
    };
    Cow::Owned(shown)
}

/// The end of a text that fits into a width.
fn tail(text: &str, width: usize) -> &str {
    let mut left = width;
    let mut start = text.len();
    for (at, character) in text.char_indices().rev() {
        let taken = measure_text_width(character.encode_utf8(&mut [0; 4]));
        if taken > left {
            break;
        }
        left -= taken;
        start = at;
    }
    text.get(start..).unwrap_or_default()
}

fn paint(text: &str, look: Look, colors: bool) -> Cow<'_, str> {
    let style = match look {
        Look::Plain => return Cow::Borrowed(text),
        Look::Dim => Style::new().dim(),
        Look::Heading => Style::new().bold(),
        Look::Warning => Style::new().yellow(),
    };
    if colors {
        Cow::Owned(style.force_styling(true).apply_to(text).to_string())
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(cells: &[&str]) -> Vec<Cell> {
        cells.iter().map(|text| Cell::new(text)).collect()
    }

    fn columns() -> Vec<Column> {
        vec![
            Column::new("LAST SEEN"),
            Column::of_names("OBJECT"),
            Column::of_texts("MESSAGE"),
        ]
    }

    /// The lines of a table, and whether it reports that something was cut.
    fn printed(rows: &[Vec<Cell>], width: Option<usize>) -> (Vec<String>, bool) {
        let screen = Screen {
            width,
            ..Screen::default()
        };
        let mut table = Table::new(columns(), screen);
        let mut out = Vec::new();
        table.print(rows.iter().cloned(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines = text.lines().map(str::to_owned).collect();
        (lines, table.cut("").is_some())
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_fit_the_screen() {
        let rows = [row(&[
            "5m",
            "Pod/web-5d4f8c7b9-x7k2p",
            "Back-off restarting failed container",
        ])];
        let tables: [(Option<usize>, bool, &[&str]); 6] = [
            (
                None,
                false,
                &[
                    "LAST SEEN   OBJECT                    MESSAGE",
                    "5m          Pod/web-5d4f8c7b9-x7k2p   Back-off restarting failed container",
                ],
            ),
            (
                Some(66),
                true,
                &[
                    "LAST SEEN   OBJECT                    MESSAGE",
                    "5m          Pod/web-5d4f8c7b9-x7k2p   Back-off restarting failed …",
                ],
            ),
            // Names are cut before a message is too short to be useful, and keep their end.
            (
                Some(50),
                true,
                &[
                    "LAST SEEN  OBJECT             MESSAGE",
                    "5m         Pod/web-…b9-x7k2p  Back-off restarting…",
                ],
            ),
            // Every part that distinguishes rows is visible.
            (
                Some(40),
                false,
                &[
                    "LAST SEEN  OBJECT",
                    "  MESSAGE",
                    "5m         Pod/web-5d4f8c7b9-x7k2p",
                    "  Back-off restarting failed container",
                ],
            ),
            (
                Some(20),
                true,
                &[
                    "LAST SEEN",
                    "  OBJECT",
                    "  MESSAGE",
                    "5m",
                    "  Pod/web-5…b9-x7k2p",
                    "  Back-off restarti…",
                ],
            ),
            (Some(3), true, &["L…N", "  …", "  …", "5m", "  …", "  …"]),
        ];
        for (width, is_cut, expected) in tables {
            let (lines, says_so) = printed(&rows, width);
            assert_eq!(lines, expected, "{width:?}");
            assert_eq!(says_so, is_cut, "{width:?}");
        }
    }

    #[test]
    fn what_was_looked_for_stays_in_view() {
        let message = "Error: INSTALLATION FAILED: unable to build kubernetes objects: the real cause is here: x";
        for (wanted, width, shown) in [
            ("real cause", 45, "…bjects: the real cause…"),
            ("error", 45, "Error: INSTALLATION FAI…"),
            (
                "kubernetes objects: the real cause",
                45,
                "…kubernetes objects: th…",
            ),
            ("real cause", 200, message),
            ("not there", 45, "Error: INSTALLATION FAI…"),
        ] {
            let cell = Cell::of_line_with(message, &[wanted.to_owned()]);
            let rows = [vec![Cell::new("5m"), Cell::new("Pod/a"), cell]];
            let (lines, _) = printed(&rows, Some(width));
            assert!(lines[1].ends_with(&format!("   {shown}")), "{lines:?}");
        }
    }

    #[test]
    fn colours_are_put_on_where_they_are_wanted() {
        for (colors, expected) in [
            (false, "Warning   x\n"),
            (true, "\u{1b}[33mWarning\u{1b}[0m   x\n"),
        ] {
            let screen = Screen {
                colors,
                ..Screen::default()
            };
            let columns = vec![Column::new("TYPE"), Column::new("X")];
            let mut table = Table::new(columns, screen).without_headings();
            let cells = vec![Cell::new("Warning").look(Look::Warning), Cell::new("x")];
            let mut out = Vec::new();
            table.print(std::iter::once(cells), &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    proptest! {
        // Characters whose width does not depend on their neighbours; terminals disagree about
        // others.
        #[test]
        fn lines_fit_and_names_keep_their_ends(
            cells in prop::collection::vec("[ -~à-ž一-鿿]{0,40}", 3),
            name in "[a-z]{1,12}",
            width in 1_usize..200,
        ) {
            let mut cells = row(&cells.iter().map(String::as_str).collect::<Vec<_>>());
            cells[1] = Cell::new(&format!("Pod/web-5d4f8c7b9-{name}"));
            let (lines, _) = printed(&[cells], Some(width));
            for line in &lines {
                prop_assert!(measure_text_width(line) <= width, "{line:?}");
            }
            // Five letters of the name's end are visible on every screen that has room for them.
            let end = &name[name.len().saturating_sub(5)..];
            if width > INDENT + 2 * 5 {
                prop_assert!(lines.iter().any(|line| line.contains(end)), "{lines:?}");
            }
        }
    }
}
