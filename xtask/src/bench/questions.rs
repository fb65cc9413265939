//! `cargo xtask bench questions`: ten questions about captured incidents, to `tidings mcp` and to
//! kubernetes-mcp-server over one server. Counts the bytes and tokens of the answers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::figure::{Built, Figure, figures, real_events};
use super::table;
use crate::command::{Result, find};
use crate::npm::{GPT_TOKENIZER, KUBERNETES_MCP_SERVER};

/// Our answers and the peer's, as the program calls them.
const SIDES: [&str; 2] = ["tidings", "peer"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the table into docs/benchmarks.md
    #[arg(long)]
    write: bool,
    /// Folder of real events with the incidents [default: $TIDINGS_CAPTURES]
    #[arg(long)]
    captures: Option<PathBuf>,
    #[command(flatten)]
    built: Built,
}

pub(super) fn run(root: &Path, args: &Args) -> Result {
    let document = root.join("docs/benchmarks.md");
    if args.write {
        table::with_tables(&document, "questions", "")?;
    }
    let captures = real_events(args.captures.as_deref())
        .ok_or("no real events: name their folder with --captures")?;
    let node = find("node").ok_or("no node on the PATH")?;
    let packages = root.join("target/tools/npm");
    let peer = KUBERNETES_MCP_SERVER.find(&packages, true)?;
    let encoding = GPT_TOKENIZER.find(&packages, true)?;
    let tidings = args.built.program(root, "tidings-cli", "tidings")?;
    let found = figures(
        Command::new(node)
            .arg(root.join("benches/agents/questions.mjs"))
            .args([tidings, peer, captures, encoding]),
    )?;
    let table = rows(&found)?;
    println!("\n{table}");
    if args.write {
        table::write(&document, "questions", &table)?;
    }
    Ok(())
}

/// The numbers of events, a row for each question, their sum, and a row for the lists of tools.
fn rows(found: &[Figure]) -> Result<String> {
    let [Figure(head), questions @ ..] = found else {
        return Err("the program asked nothing".to_owned());
    };
    let mut table = format!(
        "{} events, {} of them captured.\n\n\
         | question | calls | bytes | tokens | fact | peer: calls | bytes | tokens | fact |\n\
         |---|--:|--:|--:|---|--:|--:|--:|---|\n",
        grouped(number(head, "events")?),
        grouped(number(head, "captured")?),
    );
    let mut all = [Sum::default(), Sum::default()];
    for Figure(question) in questions {
        let mut cells = vec![question["question"].as_str().unwrap_or_default().to_owned()];
        for (side, all) in SIDES.iter().zip(&mut all) {
            let answer = &question[side];
            let has_fact = answer["fact"] == true;
            let one = Sum {
                calls: number(answer, "calls")?,
                bytes: number(answer, "bytes")?,
                tokens: number(answer, "tokens")?,
                facts: u64::from(has_fact),
            };
            cells.extend(one.cells(if has_fact { "yes" } else { "no" }));
            all.add(&one);
        }
        row(&mut table, &cells);
    }
    let mut cells = vec!["all".to_owned()];
    for all in &all {
        cells.extend(all.cells(&format!("{} of {}", all.facts, questions.len())));
    }
    row(&mut table, &cells);
    let mut cells = vec!["in addition, the list of tools".to_owned()];
    for at in 0..SIDES.len() {
        let tools = &head["tools"][at];
        let counts = [number(tools, "bytes")?, number(tools, "tokens")?];
        cells.push(String::new());
        cells.extend(counts.map(grouped));
        cells.push(String::new());
    }
    row(&mut table, &cells);
    Ok(table)
}

/// What some answers of one side cost, and how many have their fact.
#[derive(Default)]
struct Sum {
    calls: u64,
    bytes: u64,
    tokens: u64,
    facts: u64,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.bytes += other.bytes;
        self.tokens += other.tokens;
        self.facts += other.facts;
    }

    fn cells(&self, fact: &str) -> [String; 4] {
        let [calls, bytes, tokens] = [self.calls, self.bytes, self.tokens].map(grouped);
        [calls, bytes, tokens, fact.to_owned()]
    }
}

fn row(table: &mut String, cells: &[String]) {
    let _ = writeln!(table, "| {} |", cells.join(" | "));
}

/// A whole number that the program printed.
fn number(of: &Value, name: &str) -> Result<u64> {
    let found = of[name].as_u64();
    found.ok_or_else(|| format!("the program printed no number of {name}: {of}"))
}

/// A number with a comma before each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        let table = rows(&[head(), question("who?", false), question("why?", true)]).unwrap();
        let mut lines = table.lines();
        assert_eq!(lines.next(), Some("25,000 events, 999 of them captured."));
        let expected = [
            "| who? | 1 | 700 | 200 | yes | 1 | 780,736 | 600,000 | no |",
            "| why? | 1 | 700 | 200 | yes | 1 | 780,736 | 600,000 | yes |",
            "| all | 2 | 1,400 | 400 | 2 of 2 | 2 | 1,561,472 | 1,200,000 | 1 of 2 |",
            "| in addition, the list of tools |  | 10,361 | 2,589 |  |  | 16,506 | 3,958 |  |",
        ];
        assert_eq!(lines.skip(3).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_missing_number_is_an_error() {
        let question = Figure(json!({"question": "who?", "tidings": {"calls": 1, "bytes": 7}}));
        let why = rows(&[head(), question]).unwrap_err();
        assert!(why.contains("no number of tokens"), "{why}");
    }
}
