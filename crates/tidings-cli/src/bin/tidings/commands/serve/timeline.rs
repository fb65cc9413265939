//! The flags of the timeline that a server or an archive serves at `/timeline`.

use tidings_server::ApiOptions;

/// Whether the timeline is served.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Timeline")]
pub(crate) struct TimelineFlags {
    /// Do not serve the timeline, the page at /timeline that shows what happened
    #[arg(long)]
    no_timeline: bool,
}

impl TimelineFlags {
    /// Applies the flags to the options.
    pub(crate) fn apply(self, options: &mut ApiOptions) {
        options.timeline.enabled = !self.no_timeline;
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        timeline: TimelineFlags,
    }

    /// The defaults that `--help` shows are those of the library.
    #[test]
    fn defaults_are_the_library_s() {
        let mut options = ApiOptions::default();
        Flags::parse_from(["serve"]).timeline.apply(&mut options);
        let default = ApiOptions::default();
        assert_eq!(format!("{options:?}"), format!("{default:?}"));
        let flags = Flags::parse_from(["serve", "--no-timeline"]);
        flags.timeline.apply(&mut options);
        assert!(!options.timeline.enabled);
    }
}
