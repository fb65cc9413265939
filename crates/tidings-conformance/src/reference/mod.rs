//! Compares the Event API server with a real kube-apiserver: both get the same requests, and every
//! difference between the answers is either explained or an error.

mod case;
mod compare;
mod normal;
mod protobuf;
mod side;
mod tree;

use std::io::Write;
use std::path::PathBuf;

use case::{Case, EXPLANATIONS, EXPLANATIONS_OF_ARCHIVE};
use compare::{Difference, Explained, differences, matches};
use side::Side;
use tree::Tree;

use crate::error::{Result, fail};
use crate::servers::{ApiServer, Etcd};

/// Maximum length of a value in reports.
const SHOWN: usize = 300;

/// The arguments of this suite.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder with the cases in *.yaml, and explained differences in explained.yaml.
    dir: PathBuf,
    /// The kube-apiserver to judge by.
    #[arg(long, env = "KUBE_APISERVER", value_name = "PROGRAM")]
    kube_apiserver: PathBuf,
    /// The etcd it needs.
    #[arg(long, env = "ETCD", value_name = "PROGRAM")]
    etcd: PathBuf,
    /// The tidings to judge.
    #[arg(long, value_name = "PROGRAM")]
    tidings: PathBuf,
    /// The kubectl of some cases; without it they are skipped, and reported as skipped.
    #[arg(long, env = "KUBECTL", value_name = "PROGRAM")]
    kubectl: Option<PathBuf>,
    /// Judge an archive that follows the kube-apiserver by its answers to reads of events.
    #[arg(long)]
    archive: bool,
    /// Only cases with a name like this; * means any text.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// Show explained differences, too.
    #[arg(long)]
    verbose: bool,
}

/// Number of requests, and of equal and different answers.
#[derive(Debug, Default)]
struct Counts {
    cases: usize,
    requests: usize,
    equal: usize,
    explained: usize,
    different: usize,
}

/// Judges every case, and writes the differences to `out`. Returns whether all of them are
/// explained.
pub(crate) async fn run(args: &Args, out: &mut impl Write) -> Result<bool> {
    let mut cases = case::read(&args.dir)?;
    if let Some(only) = &args.only {
        cases.retain(|case| matches(only, &case.name));
    }
    let without = args.kubectl.is_none();
    let before = cases.len();
    cases.retain(|case| !(without && case.needs_kubectl()));
    let left_out = before - cases.len();

    let folder = tempfile::tempdir()?;
    let etcd = Etcd::start(&args.etcd, folder.path()).await?;
    let theirs = ApiServer::kube(&args.kube_apiserver, &etcd, None, &[]).await?;
    let ours = if args.archive {
        ApiServer::mirror(&args.tidings, &theirs, &["judge"], &[]).await?
    } else {
        // Unless tidings always returns managed fields, there is nothing to compare when an event
        // is created.
        ApiServer::tidings(&args.tidings, &["--managed-fields", "always"]).await?
    };
    let mut judge = Judge {
        args,
        theirs: Side::new(theirs, args.kubectl.clone())?,
        ours: Side::new(ours, args.kubectl.clone())?,
        explained: read_explanations(args)?,
        counts: Counts::default(),
    };
    for (number, case) in cases.iter().enumerate() {
        judge.judge(case, &format!("case-{number}"), out).await?;
    }
    let Judge {
        explained, counts, ..
    } = judge;

    // Explanations must all occur in a full run. In that of an archive they do not: it is judged by
    // reads only, and most explanations are about writes.
    let unused = if args.only.is_none() && left_out == 0 && !args.archive {
        explained.unused()
    } else {
        Vec::new()
    };
    for entry in &unused {
        writeln!(out, "explained, but not different: {entry}")?;
    }
    if left_out > 0 {
        writeln!(out, "{left_out} cases left out: there is no kubectl")?;
    }
    writeln!(
        out,
        "{} cases, {} requests: {} equal, {} explained, {} different",
        counts.cases, counts.requests, counts.equal, counts.explained, counts.different
    )?;
    Ok(counts.different == 0 && unused.is_empty())
}

fn read_explanations(args: &Args) -> Result<Explained> {
    let mut files = vec![EXPLANATIONS];
    files.extend(args.archive.then_some(EXPLANATIONS_OF_ARCHIVE));
    let mut text = String::new();
    for file in files {
        let path = args.dir.join(file);
        match std::fs::read_to_string(&path) {
            // Each file is a YAML list, so the two texts after each other are one list.
            Ok(read) => text.push_str(&read),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return fail(format!("{}: {error}", path.display())),
        }
    }
    if text.is_empty() {
        text.push_str("[]");
    }
    let explained = Explained::parse(&text);
    Ok(explained.map_err(|message| format!("{}: {message}", args.dir.display()))?)
}

/// Both servers, and what was found so far.
struct Judge<'a> {
    args: &'a Args,
    theirs: Side,
    ours: Side,
    explained: Explained,
    counts: Counts,
}

impl Judge<'_> {
    async fn judge(&mut self, case: &Case, namespace: &str, out: &mut impl Write) -> Result<()> {
        let Self {
            args,
            theirs,
            ours,
            explained,
            counts,
        } = self;
        let actions = case.actions().unwrap_or_default();
        let (judged, mut their_answers, mut our_answers): (Vec<_>, Vec<_>, Vec<_>) = if args.archive
        {
            let given = theirs.run_with_archive(ours, &actions, namespace).await;
            given.into_iter().collect()
        } else {
            let (theirs, ours) = tokio::join!(
                theirs.run(&actions, namespace),
                ours.run(&actions, namespace)
            );
            ((0..actions.len()).collect(), theirs, ours)
        };
        let bases = Case::bases(&actions);
        normal::normalise(&mut their_answers, &bases, case.managed_fields);
        normal::normalise(&mut our_answers, &bases, case.managed_fields);
        counts.cases += 1;
        let judged = judged.into_iter().filter_map(|at| actions.get(at));
        for ((action, theirs), ours) in judged.zip(&their_answers).zip(&our_answers) {
            counts.requests += 1;
            let found = compared(theirs, ours);
            let mut lines = Vec::new();
            let (mut some_explained, mut some_different) = (false, false);
            for Difference { at, theirs, ours } in &found {
                let reason = explained.reason(&case.name, &action.name, at);
                let (theirs, ours) = (shown(theirs.as_ref()), shown(ours.as_ref()));
                let mut line =
                    format!("  {at}\n    kube-apiserver: {theirs}\n    tidings:        {ours}");
                if let Some(reason) = reason {
                    some_explained = true;
                    line = format!("{line}\n    explained: {reason}");
                } else {
                    some_different = true;
                }
                if reason.is_none() || args.verbose {
                    lines.push(line);
                }
            }
            match (some_different, some_explained) {
                (true, _) => counts.different += 1,
                (false, true) => counts.explained += 1,
                (false, false) => counts.equal += 1,
            }
            if !lines.is_empty() {
                writeln!(out, "{} / {}", case.name, action.name)?;
                for line in lines {
                    writeln!(out, "{line}")?;
                }
            }
        }
        out.flush()?;
        Ok(())
    }
}

/// Every difference between two answers. If the status differs, only it and its message are
/// compared.
fn compared(theirs: &Tree, ours: &Tree) -> Vec<Difference> {
    if theirs.get("status") == ours.get("status") {
        return differences(theirs, ours);
    }
    let brief = |answer: &Tree| {
        let said = answer
            .at("body.message")
            .filter(|_| answer.at("body.kind").and_then(Tree::text) == Some("Status"));
        let what = said
            .or_else(|| answer.at("body.kind"))
            .or_else(|| answer.get("error"))
            .or_else(|| answer.get("failed"))
            .or_else(|| answer.get("body"));
        let both = answer.get("status").into_iter().chain(what);
        Tree::List(both.cloned().collect())
    };
    vec![Difference {
        at: "status".to_owned(),
        theirs: Some(brief(theirs)),
        ours: Some(brief(ours)),
    }]
}

fn shown(value: Option<&Tree>) -> String {
    let text = value.map_or_else(|| "nothing".to_owned(), Tree::to_string);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}
