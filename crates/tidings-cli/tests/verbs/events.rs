//! `tidings events`, `describe` and `top`: output, order, formats, and errors.

use std::path::Path;

use base64::Engine;
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use super::support::{Cluster, Ran, event, rollout, run, tidings};

const REASONS: &str = "custom-columns=REASON:.reason";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_timeline_is_in_the_order_of_what_was_seen_last() {
    let cluster = Cluster::with(&rollout()).await;
    let reasons = |arguments: &[&str]| {
        let all = [&["events", "-o", REASONS, "--no-headers"], arguments].concat();
        cluster.lines(&all).join(" ")
    };
    let all = "ScalingReplicaSet SuccessfulCreate Pulled BackOff FailedMount";
    for (arguments, expected) in [
        (&["-A"] as &[&str], all),
        (&["-n", "shop"], all),
        (&["-n", "bank"], ""),
        (&["-A", "--limit", "2"], "BackOff FailedMount"),
        (&["-A", "--limit", "1000"], all),
        (&["-A", "--types=warning"], "BackOff FailedMount"),
        (
            &["-A", "--type", "Normal,Warning", "--limit=1"],
            "FailedMount",
        ),
        (
            &["-A", "--filter", "reason:Pulled reason:Back*"],
            "Pulled BackOff",
        ),
        (&["--filter", "namespace:shop"], all),
        (&["--filter", "namespace:s* -node:node-2"], all),
        (&["--filter", "namespace:b*"], ""),
        (&["-A", "--filter", "reason:Pulled"], "Pulled"),
        (
            &[
                "-A",
                "--filter",
                "-reason:Scaling* -reason:SuccessfulCreate -BackOff",
            ],
            "Pulled FailedMount",
        ),
        (
            &["-A", "--filter=source:kubelet", "--filter=reason:Pulled"],
            "Pulled",
        ),
        (&["-A", "--filter", "source:scheduler"], ""),
        (&["-A", "--since", "22m"], "BackOff FailedMount"),
        (
            &["-A", "--until", "40m"],
            "ScalingReplicaSet SuccessfulCreate",
        ),
        (
            &[
                "-A",
                "--since",
                "1h",
                "--until",
                "40m",
                "--filter",
                "successful",
            ],
            "SuccessfulCreate",
        ),
        (&["-A", "--filter", "WEB-API"], "FailedMount"),
        (&["-n", "shop", "--for", "deploy/web"], "ScalingReplicaSet"),
        (
            &["-n", "shop", "--for", "Deployment.apps/web"],
            "ScalingReplicaSet",
        ),
        (
            &["-n", "shop", "--for", "po/web-5d4f8c7b9-x7k2p"],
            "Pulled BackOff",
        ),
        (
            &[
                "-n",
                "shop",
                "--for",
                "deploy/web",
                "--for",
                "pod/web-api-0",
            ],
            "ScalingReplicaSet FailedMount",
        ),
        (&["-n", "shop", "--for", "widget/web"], ""),
        // None of these objects exists any more, and this server serves only events.
        (
            &["-n", "shop", "--for", "deploy/web", "--tree"],
            "ScalingReplicaSet SuccessfulCreate Pulled BackOff",
        ),
    ] {
        assert_eq!(reasons(arguments), expected, "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_form() {
    let cluster = Cluster::with(&rollout()).await;
    assert_eq!(
        cluster.lines(&["events", "-n", "shop", "--since", "22m"]),
        [
            "LAST SEEN         TYPE      REASON        OBJECT                    MESSAGE",
            "20m (x7 over 25m)   Warning   BackOff       Pod/web-5d4f8c7b9-x7k2p   BackOff of web-5d4f8c7b9-x7k2p",
            "15m                 Warning   FailedMount   Pod/web-api-0             FailedMount of web-api-0",
        ]
        .map(|line| line.replacen("LAST SEEN      ", "LAST SEEN        ", 1))
    );
    let wide = cluster.lines(&["events", "-A", "--filter=reason:BackOff", "-o", "wide"]);
    let words: Vec<&str> = wide[1]
        .split("   ")
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect();
    assert_eq!(
        words,
        [
            "shop",
            "20m (x7 over 25m)",
            "Warning",
            "BackOff",
            "Pod/web-5d4f8c7b9-x7k2p",
            "spec.containers{nginx}",
            "kubelet, node-1",
            "BackOff of web-5d4f8c7b9-x7k2p",
            "25m",
            "7",
            "web-5d4f8c7b9-x7k2p.1",
        ]
    );
    assert_eq!(
        cluster.lines(&["events", "-A", "--limit=2", "-o", "name"]),
        ["event/web-5d4f8c7b9-x7k2p.1", "event/api.1"]
    );
    let list: Value =
        serde_json::from_str(&cluster.lines(&["events", "-A", "-o", "json"]).join("\n")).unwrap();
    let yaml: Value =
        serde_saphyr::from_str(&cluster.lines(&["events", "-A", "-o", "yaml"]).join("\n")).unwrap();
    assert_eq!(list, yaml);
    assert_eq!(list["items"].as_array().unwrap().len(), 5);
    let lines: Vec<Value> = cluster
        .lines(&["events", "-A", "-o", "jsonl"])
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(Value::Array(lines), list["items"]);
    assert_eq!(
        cluster.lines(&[
            "events",
            "-A",
            "-o",
            r#"jsonpath={range .items[?(@.count>1)]}{.reason}={.count}{"\n"}{end}"#
        ]),
        ["BackOff=7"]
    );
    // For a program the output is a list, even if it is empty.
    let empty = cluster.run(&["events", "-n", "bank", "-o", "json"]);
    assert_eq!(
        serde_json::from_str::<Value>(&empty.stdout).unwrap()["items"],
        json!([])
    );
    let empty = cluster.run(&["events", "-n", "bank"]);
    assert_eq!(
        (empty.code, empty.stdout.as_str(), empty.stderr.as_str()),
        (Some(0), "", "No events found in bank namespace.\n")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_description_ends_with_the_events_of_an_object() {
    let cluster = Cluster::with(&rollout()).await;
    assert_eq!(
        cluster.lines(&["describe", "-n", "shop", "pod/web-5d4f8c7b9-x7k2p"]),
        [
            "Events:",
            "  Type     Reason   Age                From     Message",
            "  ----     ------   ----               ----     -------",
            "  Normal   Pulled   25m                kubelet  Pulled of web-5d4f8c7b9-x7k2p",
            "  Warning  BackOff  20m (x7 over 25m)  kubelet  spec.containers{nginx}: BackOff of web-5d4f8c7b9-x7k2p",
        ]
    );
    assert_eq!(
        cluster.lines(&["describe", "-n", "shop", "pod/none"]),
        ["Events:  <none>"]
    );
    assert_eq!(
        cluster
            .lines(&["describe", "-n", "shop", "deploy/web", "--tree"])
            .len(),
        7
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_noise_is_counted_by_occurrences() {
    let cluster = Cluster::with(&rollout()).await;
    let lines = cluster.lines(&["top", "-n", "shop", "--by", "reason", "--rows", "2"]);
    assert_eq!(
        lines[0],
        "last 60m: 11 occurrences of 5 events, 8 of them warnings, 0.2 a minute"
    );
    assert_eq!(lines[1], "");
    assert!(
        lines[2].starts_with("COUNT   FIRST SEEN   LAST SEEN   STILL GOING   OVER TIME"),
        "{}",
        lines[2]
    );
    assert!(
        lines[3].starts_with("7       25m          20m         "),
        "{}",
        lines[3]
    );
    assert!(
        lines[3].ends_with("   BackOff") && lines[3].contains('█'),
        "{}",
        lines[3]
    );
    assert_eq!(lines.last().unwrap(), "… and 3 more");
    let compared = ["top", "-n=shop", "--by=reason", "--against", "--window=30m"];
    let compared = cluster.lines(&compared);
    assert!(
        compared[0].ends_with("; 2 in the range before"),
        "{compared:?}"
    );
    let rows = compared.iter().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let is_row = matches!(words.get(2), Some(&("new" | "gone")));
        is_row.then(|| format!("{} {}", words[2], words.last().unwrap()))
    });
    let rows: Vec<String> = rows.collect();
    assert_eq!(
        rows[..2],
        ["new BackOff", "new FailedMount"],
        "{compared:?}"
    );
    assert!(
        rows.len() == 5 && rows[3].starts_with("gone ") && rows[4].starts_with("gone "),
        "{compared:?}"
    );
    let all = cluster.lines(&["top", "-n", "shop", "--by", "reason", "--rows", "0"]);
    assert_eq!(all.len(), 3 + 5, "{all:?}");
    let objects = cluster.lines(&[
        "top",
        "-A",
        "--by=object,source",
        "--types=Warning",
        "--window=1d",
    ]);
    assert!(
        objects[3].ends_with("shop  Pod/web-5d4f8c7b9-x7k2p"),
        "{objects:?}"
    );
    assert!(
        objects.last().unwrap().ends_with("   kubelet"),
        "{objects:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_noise_of_an_earlier_time_is_counted() {
    let seen = [("late.1", 60), ("old.1", 5 * 3600), ("older.1", 7 * 3600)];
    let events = seen.map(|(name, seconds)| event(name, ("Pod", "web"), "Pulled", seconds));
    let cluster = Cluster::with(&events).await;
    let lines = cluster.lines(&["top", "-A", "--until=4h", "--window=2h", "--by=reason"]);
    let (span, counted) = lines[0].split_once(": ").unwrap();
    assert!(span.contains("Z to 20"), "{span}");
    assert_eq!(
        counted,
        "1 occurrences of 1 events, 0 of them warnings, 0.0 a minute"
    );
    let ran = cluster.run(&["top", "-A", "--until=9h", "--window=1h"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains("no event was seen in this time"),
        "{ran:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_shown_is_said_with_a_next_step() {
    let cluster = Cluster::with(&[]).await;
    let kubeconfig = cluster.kubeconfig();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let on =
        |arguments: &[&'static str]| [&["events", "--kubeconfig", kubeconfig], arguments].concat();
    for (arguments, code, said) in [
        (vec!["events"], 2, "hint: name one with --kubeconfig"),
        (
            vec!["events", "--kubeconfig", "/nonexistent"],
            2,
            "/nonexistent",
        ),
        (
            vec!["events", "--context", "x", "--kubeconfig", kubeconfig],
            2,
            "failed to use the kubeconfig: it has no context \"x\", but ",
        ),
        (
            on(&["--cluster", "x"]),
            2,
            "failed to use the kubeconfig: it has no cluster \"x\", but ",
        ),
        (
            vec!["events", "--server", "https://127.0.0.1:1", "--token", "t"],
            3,
            "failed to reach the server",
        ),
        (
            vec!["events", "--server", "127.0.0.1:1/x"],
            2,
            "it has a path and no scheme; expected one such as https://host:6443",
        ),
        (
            on(&["--token", "wrong"]),
            3,
            "failed to authenticate to the server",
        ),
        (
            on(&["--as", "ann"]),
            1,
            "hint: tidings rbac events prints the permissions this needs",
        ),
        (
            on(&["--since", "yesterday"]),
            2,
            "failed to understand --since: expected a duration before now",
        ),
        (
            on(&["--since", "-1h"]),
            2,
            "failed to understand --since: expected a duration before now",
        ),
        (on(&["-o", "xml"]), 2, "expected wide, json"),
        (on(&["-o", "jsonpath={.a"]), 2, "{ without }"),
        (
            on(&["-o", "jsonpath={.items[0].reason}"]),
            1,
            "failed to fill in the template: array index out of bounds: index 0, length 0",
        ),
        (on(&["--sort-by", "{.a"]), 2, "{ without }"),
        (
            on(&["--chunk-size=500"]),
            2,
            "events are read in pages of 500",
        ),
        (on(&["-l", "a b"]), 1, "unable to parse requirement"),
        (on(&["--for", "pod"]), 2, "expected KIND/NAME"),
        (on(&["--types", "Error"]), 2, "expected Normal or Warning"),
        (on(&["--tree"]), 2, "--for"),
        (on(&["--limit", "0"]), 2, "0 is not in 1.."),
        (on(&["--limit", "-1"]), 2, "-1 is not in 1.."),
        (
            on(&["--as", "ann", "--for", "pod/web", "--tree"]),
            1,
            "hint: tidings rbac tree prints the permissions this needs",
        ),
        (on(&["--max-events", "0"]), 2, "expected a number above 0"),
        (on(&["--until-count=1"]), 2, "--watch"),
        (on(&["--timeout=1m"]), 2, "--watch"),
        (
            on(&["-w", "--until-count=0"]),
            2,
            "expected a number above 0",
        ),
        (on(&["-w", "--timeout=0"]), 2, "expected more than nothing"),
        (
            on(&["-w", "-o=name", "--until-count=2", "--timeout=1ms"]),
            1,
            "failed to see 2 events that are wanted within 1ms (--timeout)",
        ),
        (on(&["-n", "a b"]), 2, "expected the name of a namespace"),
        (
            on(&["--certificate-authority=x", "--insecure-skip-tls-verify"]),
            2,
            "cannot be used with",
        ),
        (
            vec!["top", "--window=2h", "--since=1h"],
            2,
            "cannot be used with",
        ),
        (vec!["demo", "--rows=x"], 2, "invalid value 'x'"),
        (
            vec!["rbac", "events", "-n", ""],
            2,
            "a value is required for '--namespace",
        ),
    ] {
        let ran = run(&arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains(said), "{arguments:?}: {}", ran.stderr);
        assert_eq!(ran.stdout, "", "{arguments:?}");
    }
}

/// The authorities of the command line apply whatever the kubeconfig says: a man in the middle has
/// no certificate of a named authority.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_of_the_command_line_are_asked() {
    let (cluster, other) = (Cluster::start().await, Cluster::start().await);
    let mut kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let authorities = [&cluster, &other].map(|of| {
        let kubeconfig = Kubeconfig::read_from(of.kubeconfig()).unwrap();
        let found = kubeconfig.clusters[0].cluster.clone().unwrap();
        let data = found.certificate_authority_data.unwrap();
        let path = of.folder.path().join("authority.crt");
        let engine = base64::engine::general_purpose::STANDARD;
        std::fs::write(&path, engine.decode(data).unwrap()).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let careless = kubeconfig.clusters[0].cluster.as_mut().unwrap();
    careless.certificate_authority_data = None;
    careless.insecure_skip_tls_verify = Some(true);
    let path = cluster.folder.path().join("careless");
    std::fs::write(&path, serde_json::to_string(&kubeconfig).unwrap()).unwrap();
    let events = ["events", "-A", "--kubeconfig", path.to_str().unwrap()];
    let [own, foreign] = authorities.each_ref().map(String::as_str);
    for (arguments, code) in [
        (&[] as &[&str], 0),
        (&["--certificate-authority", own], 0),
        (&["--certificate-authority", foreign], 3),
    ] {
        let ran = run(&[&events[..], arguments].concat());
        assert_eq!(ran.code, Some(code), "{arguments:?}: {ran:?}");
    }
}

/// Several kubeconfigs are merged as in kubectl, and a broken one is an error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kubeconfigs_of_the_environment_are_read_together() {
    let cluster = Cluster::start().await;
    let broken = cluster.folder.path().join("broken");
    std::fs::write(&broken, "contexts: {\n").unwrap();
    let good = cluster.kubeconfig();
    let (good, broken) = (good.as_path(), broken.as_path());
    let missing = Path::new("/nonexistent");
    for (paths, code) in [
        ([missing, good], 0),
        ([good, missing], 0),
        ([broken, good], 2),
        ([good, broken], 2),
    ] {
        let listed = std::env::join_paths(paths).unwrap();
        let mut command = tidings(&["events", "-A"]);
        let ran: Ran = command.env("KUBECONFIG", listed).output().unwrap().into();
        assert_eq!(ran.code, Some(code), "{paths:?}: {ran:?}");
    }
}

/// A silent server is noticed, whatever is requested first: events, a kind, or members of a family.
#[test]
fn a_server_that_accepts_and_says_nothing_is_found_out() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("--server=http://{}", listener.local_addr().unwrap());
    for arguments in [
        &["events"] as &[&str],
        &["events", "--for=widget/left"],
        &["events", "--for=deploy/web", "--tree"],
        &["record", "pod/web", "--reason=A", "-m=x", "--wait=1s"],
    ] {
        let all = [
            arguments,
            &[&server, "--token=t", "--request-timeout=200ms"],
        ]
        .concat();
        let (done, ran) = std::sync::mpsc::channel();
        let mut command = tidings(&all);
        std::thread::spawn(move || done.send(Ran::from(command.output().unwrap())));
        let ran = ran.recv_timeout(std::time::Duration::from_secs(60));
        let ran = ran.unwrap_or_else(|_| panic!("{arguments:?} waits for ever"));
        assert_eq!(ran.code, Some(3), "{arguments:?}: {ran:?}");
        assert!(ran.stderr.contains("no answer within 200ms"), "{ran:?}");
    }
}

/// From our own server, the last few events are read without the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_reads_no_more_than_it_says() {
    let cluster = Cluster::with(&rollout()).await;
    let read = async || {
        let metrics = cluster.metrics().await;
        let line = metrics
            .lines()
            .find(|line| line.starts_with("apiserver_storage_list_fetched_objects_total"));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .unwrap_or(0)
    };
    // With conditions, a page of the latest events is enough if it has the selected ones.
    let others: Vec<Value> = (0..800)
        .map(|number| {
            let seconds = 4000 + number;
            event(&format!("e{number:03}"), ("Pod", "old"), "Pulled", seconds)
        })
        .collect();
    cluster.import(&others);
    for (arguments, expected, reads) in [
        (
            &["--limit=2"] as &[&str],
            &["event/web-5d4f8c7b9-x7k2p.1", "event/api.1"] as &[&str],
            // Twenty more are read, which may be of the same second as the last one.
            22..=22,
        ),
        (
            &["--types=Normal", "--limit=1"],
            &["event/web-5d4f8c7b9-x7k2p.2"],
            21..=21,
        ),
        (
            &["--types=Warning", "--limit=1"],
            &["event/api.1"],
            // The event is the last of all.
            21..=21,
        ),
        (
            // Earlier events are not selected in any case.
            &["--types=Warning", "--limit=3", "--since=65m"],
            &["event/web-5d4f8c7b9-x7k2p.1", "event/api.1"],
            23..=523,
        ),
        (
            // The selected events are not among the latest, so everything is read. The server looks
            // ahead for the end of a list.
            &["--types=Warning", "--limit=3"],
            &["event/web-5d4f8c7b9-x7k2p.1", "event/api.1"],
            523 + 805..=523 + 2 * 805,
        ),
        (
            &["--for=pod/web-api-0", "--limit=3"],
            &["event/api.1"],
            // The events are found by the index of objects.
            1..=2,
        ),
    ] {
        let before = read().await;
        let all = [&["events", "-n", "shop", "-o=name"], arguments].concat();
        assert_eq!(cluster.lines(&all), expected, "{arguments:?}");
        let read = read().await - before;
        assert!(reads.contains(&read), "{arguments:?}: {read}");
    }
    let refused = cluster.run(&["events", "-n", "shop", "--max-events=804"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("there are more than 804\nhint: "),
        "{refused:?}"
    );
    assert_eq!(
        cluster
            .lines(&["events", "-n", "shop", "--max-events=805"])
            .len(),
        806
    );
}
