//! Samples the cases of suites in which requests fail or a writer is killed, one case after the
//! other.
//!
//! `cargo xtask faults` runs all cases. An ordinary run takes a quarter, drawn from a seed that is
//! always the same, so that a failed run can be repeated.

/// The environment variable that requests all cases.
const ALL: &str = "TIDINGS_ALL_FAULTS";
/// An ordinary run takes one of this number of cases.
const ONE_OF: usize = 4;
const SEED: u64 = 1;

/// The cases to run, in their order.
pub(crate) fn sampled<T>(cases: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut cases: Vec<T> = cases.into_iter().collect();
    if std::env::var_os(ALL).is_some() {
        return cases;
    }
    let tried = cases.len().div_ceil(ONE_OF);
    let mut random = fastrand::Rng::with_seed(SEED);
    while cases.len() > tried {
        cases.remove(random.usize(..cases.len()));
    }
    cases
}
