//! `--timestamps`: whether tables show ages or times.

use jiff::tz::TimeZone;
use tidings_cli::time_form::TimeForm;

use crate::clock;

/// The flag for times in tables.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct TimestampsFlag {
    /// Show times to the second instead of ages, in UTC if no zone is given [default: ages; times
    /// in UTC where ages of more than three hours do not tell rows apart]
    #[arg(
        long,
        value_name = "ZONE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "utc",
        help_heading = "Output"
    )]
    timestamps: Option<Zone>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Zone {
    /// UTC
    Utc,
    /// The zone of this machine, or of the variable TZ
    Local,
    /// Ages in any case
    Age,
}

impl TimestampsFlag {
    /// The requested form of times, if there is one.
    pub(crate) fn form(&self) -> Option<TimeForm> {
        Some(match self.timestamps? {
            Zone::Utc => TimeForm::Time(TimeZone::UTC),
            Zone::Local => TimeForm::Time(clock::zone()),
            Zone::Age => TimeForm::Age,
        })
    }
}
