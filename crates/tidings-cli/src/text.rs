//! Text in columns, for terminals and for programs.
//!
//! Invariant: what others wrote never reaches a terminal as a command to it, and nothing in it is
//! unseen there. `tidings_core::is_printable` decides, for every form of output.

use std::borrow::Cow;
use std::fmt::Write;
use std::io;

use console::{Style, measure_text_width, pad_str, truncate_str};
use tidings_core::{is_printable, printable};

/// Blank space between two columns.
const GAP: usize = 3;
/// A message is not cut below this width; other columns give way.
const LAST_MIN: usize = 24;
/// A column that gives way keeps this much.
const OTHER_MIN: usize = 12;

/// Text of one line that a terminal only prints: what is behind a line break is left out and shown
/// so, an escape is written `^[` (`k8s.io/cli-runtime/pkg/printers` does both), a tab as a blank,
/// and anything else that is not printable as `\u{202e}`.
pub fn one_line(text: &str) -> Cow<'_, str> {
    let (line, tail) = match text.find(['\n', '\r']) {
        Some(end) => (text.get(..end).unwrap_or(text), "..."),
        None => (text, ""),
    };
    if tail.is_empty() && line.chars().all(is_printable) {
        return Cow::Borrowed(line);
    }
    let line = line.replace('\u{1b}', "^[").replace('\t', " ");
    Cow::Owned(printable(&line).into_owned() + tail)
}

/// A message of any number of lines as one that a terminal only prints: line breaks and tabs are
/// blanks, anything else that is not printable is written `\u{202e}`.
pub fn message(text: &str) -> String {
    printable(&text.replace(['\n', '\r', '\t'], " ")).into_owned()
}

/// Text of any number of lines that a terminal only prints: a character that is not printable, and
/// neither a line break nor a tab, is written `\u001b`, as in JSON, where it means the same.
pub fn escaped(text: &str) -> Cow<'_, str> {
    escaped_but(text, &['\n', '\t'])
}

fn escaped_but<'a>(text: &'a str, kept: &[char]) -> Cow<'a, str> {
    let is_unseen = |character: char| !is_printable(character) && !kept.contains(&character);
    if !text.contains(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 32);
    for character in text.chars() {
        if is_unseen(character) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a String does not fail.
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(character);
        }
    }
    Cow::Owned(safe)
}

/// Writes text as [`escaped`] gives it, however it comes in parts.
#[derive(Debug)]
pub struct Escaping<W> {
    out: W,
    kept: &'static [char],
    /// The beginning of a character whose end is yet to come.
    begun: Vec<u8>,
}

impl<W: io::Write> Escaping<W> {
    /// In front of a terminal.
    pub fn new(out: W) -> Self {
        Self::keeping(&['\n', '\t'], out)
    }

    /// In front of a terminal, for text whose writer escapes ESC in what others wrote, and colours
    /// it.
    pub fn of_colored(out: W) -> Self {
        Self::keeping(&['\n', '\t', '\u{1b}'], out)
    }

    fn keeping(kept: &'static [char], out: W) -> Self {
        Self {
            out,
            kept,
            begun: Vec::new(),
        }
    }
}

impl<W: io::Write> io::Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begun.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.begun) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.begun.len(),
        };
        let text: Vec<u8> = self.begun.drain(..whole).collect();
        self.out
            .write_all(escaped_but(&String::from_utf8_lossy(&text), self.kept).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The output of a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Screen {
    /// The width of a terminal, which lines are fitted into; `None` leaves them whole.
    pub width: Option<usize>,
    /// Whether colours are wanted.
    pub colors: bool,
    /// Whether it is a terminal, which acts on what is in a text; a file or a pipe gets everything
    /// as it is.
    pub is_terminal: bool,
}

/// The style of a cell with colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Look {
    /// As it is.
    #[default]
    Plain,
    /// Less important.
    Dim,
    /// A heading.
    Heading,
    /// A warning.
    Warning,
}

/// A cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// One line of printable text.
    pub text: String,
    /// Its look.
    pub look: Look,
}

impl Cell {
    /// A cell of text of whatever origin.
    pub fn new(text: &str) -> Self {
        Self {
            text: one_line(text).into_owned(),
            look: Look::Plain,
        }
    }

    /// The same with another look.
    #[must_use]
    pub fn look(mut self, look: Look) -> Self {
        self.look = look;
        self
    }
}

/// The widths of a table's columns. They only grow, so that lines printed later stay in line with
/// those before.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    widths: Vec<usize>,
    gap: Option<usize>,
}

impl Layout {
    /// Another number of blanks between columns than three.
    pub fn with_gap(gap: usize) -> Self {
        Self {
            gap: Some(gap),
            ..Self::default()
        }
    }

    /// Makes room for a row.
    pub fn grow(&mut self, row: &[Cell]) {
        self.widths.resize(self.widths.len().max(row.len()), 0);
        for (width, cell) in self.widths.iter_mut().zip(row) {
            *width = (*width).max(measure_text_width(&cell.text));
        }
    }

    /// A row as one line, without a line break.
    pub fn line(&self, row: &[Cell], screen: Screen) -> String {
        let gap = self.gap.unwrap_or(GAP);
        let widths = self.fitted(gap, screen.width);
        let mut line = String::new();
        let last = row.len().saturating_sub(1);
        for (index, cell) in row.iter().enumerate() {
            let width = widths.get(index).copied().unwrap_or(0);
            let shown = truncate_str(&cell.text, width, "…");
            let shown = if index == last {
                shown
            } else {
                pad_str(&shown, width, console::Alignment::Left, None)
            };
            line.push_str(&paint(&shown, cell.look, screen.colors));
            if index < last {
                line.extend(std::iter::repeat_n(' ', gap));
            }
        }
        line.truncate(line.trim_end().len());
        match screen.width {
            // A screen too narrow even for the least of every column.
            Some(width) => truncate_str(&line, width, "…").into_owned(),
            None => line,
        }
    }

    /// The widths with which a line fits: the last column is cut first, then the widest of the
    /// others.
    fn fitted(&self, gap: usize, width: Option<usize>) -> Vec<usize> {
        let mut widths = self.widths.clone();
        let (Some(room), Some((last, others))) = (width, widths.split_last_mut()) else {
            return widths;
        };
        let gaps = gap * others.len();
        let taken = |others: &[usize]| others.iter().sum::<usize>() + gaps;
        while taken(others) + LAST_MIN.min(*last) > room {
            match others.iter_mut().max_by_key(|width| **width) {
                Some(widest) if *widest > OTHER_MIN => *widest -= 1,
                _ => break,
            }
        }
        *last = (*last).min(room.saturating_sub(taken(others)).max(1));
        widths
    }
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

    fn lines(rows: &[&[&str]], width: Option<usize>) -> Vec<String> {
        let rows: Vec<_> = rows.iter().map(|cells| row(cells)).collect();
        let mut layout = Layout::default();
        for row in &rows {
            layout.grow(row);
        }
        let screen = Screen {
            width,
            ..Screen::default()
        };
        rows.iter().map(|row| layout.line(row, screen)).collect()
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_fit_the_screen() {
        let table: [&[&str]; 2] = [
            &["LAST SEEN", "OBJECT", "MESSAGE"],
            &[
                "5m",
                "Pod/web-5d4f8c7b9-x7k2p",
                "Back-off restarting failed container",
            ],
        ];
        assert_eq!(
            lines(&table, None),
            [
                "LAST SEEN   OBJECT                    MESSAGE",
                "5m          Pod/web-5d4f8c7b9-x7k2p   Back-off restarting failed container",
            ]
        );
        assert_eq!(
            lines(&table, Some(66))[1],
            "5m          Pod/web-5d4f8c7b9-x7k2p   Back-off restarting failed …"
        );
        // The object gives way before the message is of no use.
        assert_eq!(
            lines(&table, Some(50))[1],
            "5m          Pod/web-5d4…   Back-off restarting fa…"
        );
    }

    #[test]
    fn nothing_is_a_command_to_the_terminal() {
        assert_eq!(one_line("plain"), "plain");
        assert_eq!(one_line("a\u{1b}[31mred\tb\u{7}"), r"a^[[31mred b\u{7}");
        assert_eq!(
            one_line("ad\u{200b}min\u{202e}x"),
            r"ad\u{200b}min\u{202e}x"
        );
        assert_eq!(message("a\n\u{1b}b\u{e0041}"), r"a \u{1b}b\u{e0041}");
        assert_eq!(one_line("first\nsecond"), "first...");
        assert_eq!(one_line("\rover"), "...");
        assert_eq!(escaped("plain\n\tü"), "plain\n\tü");
        assert_eq!(
            escaped("a\u{1b}[2J\u{9b}2J\u{7f}\r\u{202e}\u{e0041}"),
            r"a\u001b[2J\u009b2J\u007f\u000d\u202e\udb40\udc41"
        );
    }

    #[test]
    fn colours_are_put_on_where_they_are_wanted() {
        let cells = [Cell::new("Warning").look(Look::Warning), Cell::new("x")];
        let mut layout = Layout::default();
        layout.grow(&cells);
        let screen = |colors| Screen {
            colors,
            ..Screen::default()
        };
        assert_eq!(layout.line(&cells, screen(false)), "Warning   x");
        assert_eq!(
            layout.line(&cells, screen(true)),
            "\u{1b}[33mWarning\u{1b}[0m   x"
        );
    }

    proptest! {
        #[test]
        fn text_in_parts_is_escaped_as_the_whole(text in "[a\u{1b}\u{9b}é\n日]{0,40}", parts in prop::collection::vec(1_usize..5, 0..20)) {
            let mut out = Escaping::new(Vec::new());
            let mut rest = text.as_bytes();
            for length in parts {
                let (part, behind) = rest.split_at(length.min(rest.len()));
                io::Write::write_all(&mut out, part).unwrap();
                rest = behind;
            }
            io::Write::write_all(&mut out, rest).unwrap();
            prop_assert_eq!(String::from_utf8(out.out).unwrap(), escaped(&text));
        }

        // Characters whose width is the same whatever is beside them: of the others, terminals
        // differ.
        #[test]
        fn lines_fit(cells in proptest::collection::vec("[ -~à-ž一-鿿]{0,40}", 1..6), width in 1_usize..200) {
            let cells: Vec<Cell> = cells.iter().map(|text| Cell::new(text)).collect();
            let mut layout = Layout::default();
            layout.grow(&cells);
            let screen = Screen { width: Some(width), ..Screen::default() };
            prop_assert!(measure_text_width(&layout.line(&cells, screen)) <= width);
        }
    }
}
