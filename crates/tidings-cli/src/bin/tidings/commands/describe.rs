//! `tidings describe`: the events of objects, as at the end of `kubectl describe`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::ExitCode;

use tidings_cli::event::{self, Event};
use tidings_cli::kinds::Named;
use tidings_cli::printer::describe;
use tidings_cli::time_form::TimeForm;

use super::capture::CaptureFlags;
use super::cluster::{
    ClusterFlags, CommandError, EXIT_CODES_WITH_CAPTURES, NamespaceFlags, finish, one_line,
};
use super::past::{self, PastFlags};
use super::selection::SelectionFlags;
use super::terminal::ColorFlag;
use super::timestamps::TimestampsFlag;

/// Show the events of objects as kubectl describe does, even if the objects were deleted.
#[derive(Debug, clap::Args)]
#[command(after_help = format!("Examples:
  tidings describe pod/web-0
  tidings describe pod web-0 web-1
  tidings describe deploy/web --tree
  tidings describe node/worker-1
  tidings describe pod/web-0 --file support-bundle.tar.gz

{EXIT_CODES_WITH_CAPTURES}"))]
pub(crate) struct Args {
    /// Objects, such as pod/web-0 or deployments.apps/web; also as pod web-0
    #[arg(value_name = "KIND/NAME", required = true)]
    objects: Vec<String>,
    /// Include events about the objects it owns
    #[arg(long)]
    tree: bool,
    #[command(flatten)]
    past: PastFlags,
    #[command(flatten)]
    namespaces: NamespaceFlags,
    #[command(flatten)]
    timestamps: TimestampsFlag,
    #[command(flatten)]
    color: ColorFlag,
    #[command(flatten)]
    capture: CaptureFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Shows the events of objects.
pub(crate) async fn run(args: Args) -> ExitCode {
    finish(show(args).await)
}

async fn show(mut args: Args) -> Result<u8, CommandError> {
    let named = Named::all(&args.objects).map_err(|why| CommandError::of_words(&why))?;
    let loaded = args.capture.load(&mut args.cluster, &mut args.namespaces);
    let loaded = loaded.await?;
    let now = loaded.now;
    let mut described = Vec::new();
    for object in named {
        let name = object.to_string();
        let selection = SelectionFlags::of(object, args.tree);
        let reader = selection.reader(&args.cluster, &args.namespaces).await?;
        let archive = args.past.reader(&args.cluster, &reader, true).await?;
        let mut events = match archive {
            Some(archive) if args.past.is_archive_alone() => archive.list(None).await?.events,
            Some(archive) => {
                let past = past::list(&archive, None).await?;
                let mut events = reader.list(None).await?.events;
                past::add(past, &mut events);
                events
            }
            None => reader.list(None).await?.events,
        };
        event::sort(&mut events);
        if args.tree {
            described.push((name, events));
        } else {
            let objects = apart(events).into_iter();
            described.extend(objects.map(|(what, events)| (format!("{name}{what}"), events)));
        }
    }
    let (screen, mut out) = args.color.output();
    for (number, (name, events)) in described.iter().enumerate() {
        let form = args.timestamps.form();
        let form = form.unwrap_or_else(|| TimeForm::of(events.iter().map(Event::last_seen), now));
        if number == 0 {
            args.capture.tell_form(&form, now);
        }
        if described.len() > 1 {
            let blank = if number > 0 { "\n" } else { "" };
            writeln!(out, "{blank}{}", one_line(name))?;
        }
        describe(events, args.tree, (&form, now), screen, &mut out)?;
    }
    out.flush()?;
    Ok(loaded.exit_code())
}

/// Groups the events of a name by object. Each group has the object's distinguishing parts: its
/// namespace, if there are several, and its uid, because an object that was created again has
/// another one.
fn apart(events: Vec<Event>) -> Vec<(String, Vec<Event>)> {
    if events.is_empty() {
        return vec![(String::new(), events)];
    }
    let mut uids: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for event in &events {
        let uids = uids.entry(event.object_namespace().to_owned()).or_default();
        let uid = event.told_apart_by();
        if !uid.is_empty() {
            uids.insert(uid.to_owned());
        }
    }
    let mut objects: Vec<(String, Vec<Event>)> = Vec::new();
    for event in events {
        let namespace = event.object_namespace();
        let mut what = String::new();
        if uids.len() > 1 && !namespace.is_empty() {
            what = format!(" in {namespace}");
        }
        if uids.get(namespace).is_some_and(|uids| uids.len() > 1) {
            let uid = match event.told_apart_by() {
                "" => " (without uid)".to_owned(),
                uid => format!(" (uid {uid})"),
            };
            what.push_str(&uid);
        }
        match objects.iter_mut().find(|(known, _)| *known == what) {
            Some((_, events)) => events.push(event),
            None => objects.push((what, vec![event])),
        }
    }
    objects
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_of_one_name_are_told_apart() {
        type Case = (
            &'static [(&'static str, &'static str)],
            &'static [(&'static str, usize)],
        );
        let event = |namespace: &str, uid: &str| {
            Event::new(json!({
                "metadata": {"namespace": namespace},
                "involvedObject": {"kind": "Pod", "name": "redis-0", "uid": uid},
            }))
        };
        let cases: [Case; 5] = [
            (&[], &[("", 0)]),
            (&[("shop", "a"), ("shop", ""), ("shop", "a")], &[("", 3)]),
            (
                &[("shop", "a"), ("shop", "b"), ("shop", ""), ("shop", "a")],
                &[(" (uid a)", 2), (" (uid b)", 1), (" (without uid)", 1)],
            ),
            (
                &[("shop", "a"), ("bank", "c"), ("shop", "")],
                &[(" in shop", 2), (" in bank", 1)],
            ),
            (
                &[("shop", "a"), ("bank", "c"), ("shop", "b")],
                &[
                    (" in shop (uid a)", 1),
                    (" in bank", 1),
                    (" in shop (uid b)", 1),
                ],
            ),
        ];
        for (events, expected) in cases {
            let events = events.iter().map(|(namespace, uid)| event(namespace, uid));
            let found = apart(events.collect());
            let found: Vec<_> = found
                .iter()
                .map(|(what, events)| (what.as_str(), events.len()))
                .collect();
            assert_eq!(found, expected);
        }
    }
}
