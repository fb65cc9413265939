//! Reads answers of the source, for the tools.

use serde::de::DeserializeOwned;

use super::super::answers::Coverage;
use super::super::arguments::Query;
use super::super::errors::CallError;
use super::super::source::Source;
use super::super::text::name;

/// The coverage of what a query selects, at all times. It has the latest gaps of each cluster.
pub(super) async fn coverage(source: &dyn Source, place: &Query) -> Result<Coverage, CallError> {
    covered(source, place.clone().with("from", "0")).await
}

/// The coverage in a range, of which the coverage at all times may leave gaps out.
pub(super) async fn covering(
    source: &dyn Source,
    place: &Query,
    range: (i64, Option<i64>),
    whole: Coverage,
) -> Result<Coverage, CallError> {
    if whole.left_out() == 0 {
        return Ok(whole);
    }
    covered(source, place.clone().within(range)).await
}

/// Reads the coverage of what a query selects.
async fn covered(source: &dyn Source, query: Query) -> Result<Coverage, CallError> {
    let mut found: Coverage = get(source, "coverage", &query).await?;
    if query.has("namespace") {
        // It has only the namespace of the query, which says nothing about permissions.
        for cluster in &mut found.clusters {
            cluster.namespaces = None;
        }
    }
    Ok(found)
}

/// Reads an answer.
pub(super) async fn get<T: DeserializeOwned>(
    source: &dyn Source,
    answer: &'static str,
    query: &Query,
) -> Result<T, CallError> {
    let bytes = source.get(answer, query.encoded()).await?;
    serde_json::from_slice(&bytes).map_err(|why| CallError::Unreadable(why.to_string()))
}

/// The cluster of a query, if there is only one.
///
/// # Errors
/// An argument is missing.
pub(super) fn only(coverage: &Coverage) -> Result<&str, CallError> {
    match coverage.clusters.as_slice() {
        [only] if coverage.unasked.is_of_only(&only.cluster) => Ok(&only.cluster),
        several => {
            let names = several.iter().take(20).map(|it| name(&it.cluster));
            let names: Vec<_> = names.collect();
            let mut why = "is required, because there are several: ".to_owned() + &names.join(", ");
            if let Some(which) = coverage.unasked.which() {
                why = format!("{why}, and what you may read of {which} could not be asked");
            }
            Err(CallError::argument("cluster", why))
        }
    }
}
