//! How many versions were last seen in each hour for each reason: what two columns say.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use tidings_store::{CountsRequest, HOUR_MILLIS, UnixMillis, hour_of};

use super::columns;
use super::fault::Fault;
use super::leaf;
use super::view::View;

/// Row groups that are counted at once.
const AT_ONCE: usize = 8;

/// By inverted hour and reason.
pub(super) type Counted = BTreeMap<(Reverse<UnixMillis>, String), u64>;

impl View {
    /// The counts of the hours that are asked for.
    pub(super) async fn count(&self, request: &CountsRequest) -> Result<Counted, Fault> {
        let is_asked = |(from, to): (i64, i64)| {
            request.since.is_none_or(|since| to >= hour_of(since).0)
                && request
                    .until
                    .is_none_or(|until| from < until.0.saturating_add(HOUR_MILLIS))
        };
        let mut counted = Counted::new();
        for (number, file) in self.files().enumerate() {
            let times = file
                .seen
                .map(|(from, to)| (from.as_millisecond(), to.as_millisecond()));
            if !times.is_none_or(is_asked) {
                continue;
            }
            let footer = self.footer(number).await?;
            let groups = footer.groups.iter().enumerate();
            let groups = groups.filter(|(_, group)| is_asked(group.seen));
            let wants = groups.map(|(group, it)| {
                let rows = std::iter::once(0..it.rows).collect();
                self.want(number, &footer, group, rows)
            });
            let wants: Vec<_> = wants.collect::<Result<_, Fault>>()?;
            let mut read = stream::iter(wants)
                .map(|want| columns::read(&self.fetch, vec![want], [leaf::LAST_SEEN, leaf::REASON]))
                .buffered(AT_ONCE);
            while let Some(read) = read.try_next().await? {
                for [seen, reasons] in &read {
                    count(&mut counted, request, seen, reasons);
                }
            }
        }
        Ok(counted)
    }
}

fn count(
    counted: &mut Counted,
    request: &CountsRequest,
    seen: &columns::Values,
    reasons: &columns::Values,
) {
    let reasons = reasons.texts().iter().enumerate();
    for (row, reason) in reasons {
        let hour = hour_of(UnixMillis(leaf::seen(seen.maybe(row))));
        if request.in_range(hour) {
            let reason = String::from_utf8_lossy(reason.data()).into_owned();
            *counted.entry((Reverse(hour), reason)).or_default() += 1;
        }
    }
}
