//! Standard output: a terminal with a width and perhaps colours, or a pipe.

use std::io::{IsTerminal, Write};

use tidings_cli::text::{Escaping, Screen};

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

/// An output for data that others wrote: a terminal shows it escaped, everything else gets it as it
/// is.
pub(crate) fn shown(out: impl Write + IsTerminal + 'static) -> Box<dyn Write> {
    if out.is_terminal() {
        Box::new(Escaping::new(out))
    } else {
        Box::new(out)
    }
}

/// How tables look.
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
    /// The output.
    pub(crate) fn screen(&self) -> Screen {
        let is_terminal = std::io::stdout().is_terminal();
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
