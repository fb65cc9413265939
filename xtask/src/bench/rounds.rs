//! Several rounds of the same parts, of which the medians are taken: other work on a shared machine
//! distorts single figures.

use crate::command::Result;

use super::figure::Figure;

/// The default number of rounds.
pub(super) const ROUNDS: u64 = 3;

/// Measures this number of times, and returns the medians. Every round must have the same figures
/// in the same order.
pub(super) fn medians(
    rounds: u64,
    mut measure: impl FnMut() -> Result<Vec<Figure>>,
) -> Result<Vec<Figure>> {
    let mut all = Vec::new();
    for round in 1..=rounds {
        println!("round {round} of {rounds}");
        all.push(measure()?);
    }
    let Some((first, others)) = all.split_first() else {
        return Ok(Vec::new());
    };
    let names = |figures: &[Figure]| -> Vec<_> {
        let name = |it: &Figure| (it.peer().to_owned(), it.text("name").to_owned());
        figures.iter().map(name).collect()
    };
    if others.iter().any(|other| names(other) != names(first)) {
        return Err("one round measured something that another did not".to_owned());
    }
    let median = |(at, figure): (usize, &Figure)| {
        let mut figure = figure.clone();
        for (field, value) in figure.0.as_object_mut().into_iter().flatten() {
            let of_round = |round: &Vec<Figure>| round.get(at)?.number(field);
            let mut numbers: Vec<_> = all.iter().filter_map(of_round).collect();
            numbers.sort_by(f64::total_cmp);
            if value.is_number() && numbers.len() == all.len() {
                *value = numbers.get(numbers.len() / 2).copied().into();
            }
        }
        figure
    };
    Ok(first.iter().enumerate().map(median).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn round(name: &str, per_second: f64) -> Vec<Figure> {
        vec![
            Figure(json!({"name": "before", "writers": 64})),
            Figure(json!({"name": name, "peer": "etcd", "per_second": per_second})),
        ]
    }

    #[test]
    fn of_every_number_the_median() {
        let mut speeds = [5.0, 900.0, 7.0].into_iter();
        let measured = medians(3, || Ok(round("creates", speeds.next().unwrap()))).unwrap();
        assert_eq!(measured[0].number("writers"), Some(64.0));
        assert_eq!(measured[1].number("per_second"), Some(7.0));
        assert_eq!(measured[1].text("name"), "creates");
    }

    #[test]
    fn rounds_that_differ_are_no_rounds() {
        let mut names = ["creates", "updates"].into_iter();
        let measured = medians(2, || Ok(round(names.next().unwrap(), 1.0)));
        assert!(measured.is_err());
    }
}
