//! The flags of the timeline that a server or an archive serves at `/timeline`.

use std::time::Duration;

use tidings_server::ApiOptions;

use tidings_cli::times::duration_of_seconds;

/// Whether the timeline is served, and its bounds.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Timeline")]
pub(crate) struct TimelineFlags {
    /// Do not serve the timeline, the page at /timeline that shows what happened
    #[arg(long)]
    no_timeline: bool,
    /// Time after which a browser has to log in again
    #[arg(long, value_name = "DURATION", default_value = "12h", value_parser = duration_of_seconds)]
    timeline_session_duration: Duration,
    /// Maximum events read for one picture. Of a range that has more, evenly distributed parts are
    /// read, warnings first
    #[arg(long, value_name = "COUNT", default_value = "8000", value_parser = clap::value_parser!(u32).range(100..))]
    timeline_read_limit: u32,
}

impl TimelineFlags {
    /// Applies the flags to the options.
    pub(crate) fn apply(self, options: &mut ApiOptions) {
        let timeline = &mut options.timeline;
        timeline.enabled = !self.no_timeline;
        timeline.session_time = self.timeline_session_duration;
        timeline.read_limit = self.timeline_read_limit as usize;
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
