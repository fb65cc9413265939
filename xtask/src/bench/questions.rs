//! `cargo xtask bench questions`: ten questions about captured incidents, to `tidings mcp` and to
//! kubernetes-mcp-server over one server. Counts the bytes and tokens of the answers.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::figure::{Built, Figure, NO_REAL_EVENTS, Output, figures, real_events};
use super::tables;
use crate::command::{Result, find};
use crate::tools::{GPT_TOKENIZER, KUBERNETES_MCP_SERVER};

/// Our answers and the peer's, as the program calls them, and what the table's fields begin with.
const SIDES: [(&str, &str); 2] = [("tidings", ""), ("peer", "peer_")];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    built: Built,
}

pub(super) fn run(root: &Path, args: &Args) -> Result {
    args.output.check(root, "questions")?;
    let captures = real_events().ok_or(NO_REAL_EVENTS)?;
    let node = find("node").ok_or("no node on the PATH")?;
    let peer = KUBERNETES_MCP_SERVER.find(root, true)?;
    let encoding = GPT_TOKENIZER.find(root, true)?;
    let tidings = args.built.tidings(root)?;
    let found = figures(
        Command::new(node)
            .arg(root.join("benches/agents/questions.mjs"))
            .args([tidings, peer, captures, encoding]),
    )?;
    args.output.put(root, "questions", &table(&found)?, &[])
}

/// The numbers of events, a row for each question, their sum, and a row for the lists of tools.
fn table(found: &[Figure]) -> Result<String> {
    let [Figure(head), questions @ ..] = found else {
        return Err("the program asked nothing".to_owned());
    };
    let mut rows = Vec::new();
    let mut all = Figure(json!({"name": "all"}));
    let mut tools = Figure(json!({"name": "in addition, the list of tools"}));
    for (at, (side, of)) in SIDES.into_iter().enumerate() {
        let mut facts = 0;
        for (row, Figure(question)) in questions.iter().enumerate() {
            let answer = &question[side];
            let has_fact = answer["fact"] == true;
            facts += u64::from(has_fact);
            if rows.len() == row {
                rows.push(Figure(json!({"name": question["question"]})));
            }
            rows[row].0[format!("{of}fact")] = if has_fact { "yes" } else { "no" }.into();
            for count in ["calls", "bytes", "tokens"] {
                let field = format!("{of}{count}");
                let number = number(answer, count)?;
                let sum = all.number(&field).unwrap_or_default() + number;
                all = all.with(&field, sum);
                rows[row].0[field] = number.into();
            }
        }
        all = all.with(
            &format!("{of}fact"),
            format!("{facts} of {}", questions.len()),
        );
        for count in ["bytes", "tokens"] {
            let number = number(&head["tools"][at], count)?;
            tools = tools.with(&format!("{of}{count}"), number);
        }
    }
    rows.extend([all, tools]);
    Ok(format!(
        "{} events, {} of them captured.\n\n{}",
        tables::grouped(number(head, "events")?),
        tables::grouped(number(head, "captured")?),
        tables::questions(&rows)
    ))
}

/// A number that the program printed.
fn number(of: &Value, name: &str) -> Result<f64> {
    let found = of[name].as_f64();
    found.ok_or_else(|| format!("the program printed no number of {name}: {of}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Figure {
        let tools = [
            json!({"bytes": 10_361, "tokens": 2589}),
            json!({"bytes": 16_506, "tokens": 3958}),
        ];
        Figure(json!({"events": 25_000, "captured": 999, "tools": tools}))
    }

    #[test]
    fn every_question_has_a_row_and_counts_into_the_sum() {
        let question = |name: &str, has_fact: bool| {
            let ours = json!({"calls": 1, "bytes": 700, "tokens": 200, "fact": true});
            let peer = json!({"calls": 1, "bytes": 780_736, "tokens": 600_000, "fact": has_fact});
            Figure(json!({"question": name, "tidings": ours, "peer": peer}))
        };
        let table = table(&[head(), question("who?", false), question("why?", true)]).unwrap();
        let expected = [
            "25,000 events, 999 of them captured.",
            "",
            "| question | calls | bytes | tokens | fact | peer: calls | bytes | tokens | fact |",
            "|---|--:|--:|--:|---|--:|--:|--:|---|",
            "| who? | 1 | 700 | 200 | yes | 1 | 780,736 | 600,000 | no |",
            "| why? | 1 | 700 | 200 | yes | 1 | 780,736 | 600,000 | yes |",
            "| all | 2 | 1,400 | 400 | 2 of 2 | 2 | 1,561,472 | 1,200,000 | 1 of 2 |",
            "| in addition, the list of tools |  | 10,361 | 2,589 |  |  | 16,506 | 3,958 |  |",
        ];
        assert_eq!(table.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_missing_number_is_an_error() {
        let question = Figure(json!({"question": "who?", "tidings": {"calls": 1, "bytes": 7}}));
        let why = table(&[head(), question]).unwrap_err();
        assert!(why.contains("no number of tokens"), "{why}");
    }
}
