//! Which of its cases a suite tries that fails requests, or kills a writer, one after the other.
//!
//! `cargo xtask faults` tries all of them. An ordinary run tries a quarter, drawn from a seed that
//! is always the same, so that a run that failed can be repeated.

/// The environment variable that asks for all cases.
const ALL: &str = "TIDINGS_ALL_FAULTS";
/// One of how many cases an ordinary run tries.
const ONE_OF: usize = 4;
const SEED: u64 = 1;

/// The cases to try, in their order.
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
