//! Standard output and standard error: terminals, or files and pipes.
//!
//! Invariant: no other code of the command writes to them. On a terminal every text is escaped, so
//! that untrusted text is no escape sequence; only colours pass, if they are enabled.

use std::io::{IsTerminal, Write};

use tidings_cli::table::Screen;
use tidings_cli::text::Escaping;

/// When to print colours.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Standard output. A terminal gets untrusted text escaped, everything else gets it unchanged.
pub(crate) fn output() -> Box<dyn Write> {
    shown(std::io::stdout())
}

/// Standard error; see [`output`].
pub(crate) fn errors() -> Box<dyn Write> {
    shown(std::io::stderr())
}

/// Standard error for log lines; [`errors_are_shown`] decides about colours.
pub(crate) fn log() -> Box<dyn Write> {
    colored(std::io::stderr())
}

/// Whether standard output is a terminal.
pub(crate) fn output_is_shown() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether standard error is a terminal.
pub(crate) fn errors_are_shown() -> bool {
    std::io::stderr().is_terminal()
}

/// Wraps another output, such as a device that is written to by its name.
pub(crate) fn shown(out: impl Write + IsTerminal + 'static) -> Box<dyn Write> {
    if out.is_terminal() {
        Box::new(Escaping::new(out))
    } else {
        Box::new(out)
    }
}

fn colored(out: impl Write + IsTerminal + 'static) -> Box<dyn Write> {
    if out.is_terminal() {
        Box::new(Escaping::of_colored(out))
    } else {
        Box::new(out)
    }
}

/// The flag for colours in tables.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct ColorFlag {
    /// When to print colours
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Output"
    )]
    color: Color,
}

impl ColorFlag {
    /// Standard output for tables, and its properties.
    pub(crate) fn output(&self) -> (Screen, impl Write + use<>) {
        let screen = self.screen();
        // Buffered, because a table is written in many small parts.
        let out = if screen.colors {
            colored(std::io::stdout())
        } else {
            output()
        };
        (screen, std::io::BufWriter::new(out))
    }

    fn screen(&self) -> Screen {
        let is_terminal = output_is_shown();
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let size = || console::Term::stdout().size_checked();
        Screen {
            width: is_terminal
                .then(size)
                .flatten()
                .map(|(_, columns)| usize::from(columns))
                .filter(|width| *width > 0),
            colors: match self.color {
                Color::Always => true,
                Color::Never => false,
                Color::Auto => is_terminal && !is_set("NO_COLOR") && !is_dumb,
            },
            is_terminal,
        }
    }
}
