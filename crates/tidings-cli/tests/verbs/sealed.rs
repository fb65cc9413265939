//! `tidings archive --objects` and `tidings sealed` as processes: an archive that is killed again
//! and again seals every version once.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures::TryStreamExt;
use kube::core::WatchEvent;
use serde_json::{Value, json};
use tidings_testing::process::Process;
use tidings_testing::programs;
use tidings_testing::s3::{BUCKET, S3Server};
use tidings_testing::serving::client;

use super::support::{Cluster, ago, event, metrics_of_archive, run, tidings};

/// Timeout of each step, long enough for a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn archive(cluster: &Cluster, data: &Path, url: &str) -> Process {
    let (process, _) = Process::start_and_hear(&mut command(cluster, data, url)).unwrap();
    process
}

fn command(cluster: &Cluster, data: &Path, url: &str) -> Command {
    let kubeconfig = cluster.kubeconfig();
    let mut command = tidings(&["archive", "--secure-port=0", "--name=prod"]);
    command
        .args(["--kubeconfig", text(&kubeconfig)])
        .args(["--data-dir", text(data)])
        .args(["--objects", url, "--seal-after=1s"])
        .stderr(Stdio::null());
    command
}

/// Waits until this number of versions is sealed.
#[track_caller]
fn until_sealed(url: &str, versions: usize) {
    let beginning = format!("prod: {versions} versions in ");
    until(|| {
        let ran = run(&["sealed", url]);
        let is_sealed = ran.stdout.starts_with(&beginning);
        is_sealed
            .then_some(())
            .ok_or(format!("{versions}: {ran:?}"))
    });
}

/// Waits until a condition holds.
#[track_caller]
#[expect(
    clippy::disallowed_methods,
    reason = "it is waited for what another program does"
)]
fn until(is_so: impl Fn() -> Result<(), String>) {
    let began = Instant::now();
    while let Err(why) = is_so() {
        assert!(began.elapsed() < PATIENCE, "{why}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_is_killed_seals_every_version_once() {
    let folder = tempfile::tempdir().unwrap();
    let (data, objects) = (folder.path().join("data"), folder.path().join("objects"));
    let url = format!("file://{}", objects.display());
    let cluster = Cluster::start().await;
    let none = run(&["sealed", &url]);
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(none.stderr.contains(text(&objects)), "{none:?}");
    assert!(!objects.exists(), "looking makes no folder");
    let wrong = run(&["sealed", text(&objects)]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("file:///FOLDER"), "{wrong:?}");
    let none = run(&["sealed", &format!("file://{}", folder.path().display())]);
    assert_eq!(none.code, Some(1), "{none:?}");
    assert!(none.stderr.contains("there is no archive"), "{none:?}");
    for round in 1..=3 {
        let name = |number| format!("web.{round}-{number}");
        let new = (0..20).map(|number| event(&name(number), ("Pod", "web"), "BackOff", 60));
        cluster.import(&new.collect::<Vec<_>>());
        let process = archive(&cluster, &data, &url);
        until_sealed(&url, round * 20);
        process.signal("KILL");
        let checked = run(&["sealed", &url, "--check"]);
        assert_eq!(checked.code, Some(0), "{checked:?}");
        assert!(checked.stdout.contains("are there"), "{checked:?}");
    }
    // The printed paths can be opened by a query engine.
    let files = run(&["sealed", &url, "--cluster=prod", "--files"]).stdout;
    let files: Vec<_> = files.lines().map(Path::new).collect();
    assert!(
        !files.is_empty() && files.iter().all(|file| file.is_file()),
        "{files:?}"
    );

    // A closed pipe ends the output, as with the other verbs.
    let (reader, output) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = tidings(&["sealed", &url, "--files"]);
    let unread = command.stdout(output).output().unwrap();
    let said = String::from_utf8(unread.stderr).unwrap();
    assert_eq!((unread.status.code(), said.as_str()), (Some(0), ""));

    std::fs::write(files[0], "torn").unwrap();
    let damaged = run(&["sealed", &url, "--check"]);
    assert_eq!(damaged.code, Some(1), "{damaged:?}");
    assert!(
        damaged.stdout.contains("not those that were written"),
        "{damaged:?}"
    );
}

/// Runs a command of tidings against a server, and kubectl if it is available.
fn ask(kubeconfig: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let ran = run(&[arguments, &["--kubeconfig", kubeconfig]].concat());
    (ran.code, ran.stdout + &ran.stderr)
}

fn kubectl(kubeconfig: &str, arguments: &[&str]) -> Option<(Option<i32>, String)> {
    let mut command = Command::new(programs::kubectl()?);
    command.args(arguments).args(["--kubeconfig", kubeconfig]);
    let ran = command.output().unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Some((ran.status.code(), said))
}

/// The resourceVersions of the list of all events and of its first event.
async fn numbers(kubeconfig: &str) -> (String, String) {
    let client = client(Path::new(kubeconfig)).await;
    let request = http::Request::get("/api/v1/events").body(Vec::new());
    let list: Value = client.request(request.unwrap()).await.unwrap();
    let number = |of: &Value| {
        of["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    (number(&list), number(&list["items"][0]))
}

/// The first `times` results of a watch from a resourceVersion: names and resourceVersions of new
/// events, and the code of an error.
async fn watched(kubeconfig: &str, from: &str, times: usize) -> Vec<(String, String)> {
    let client = client(Path::new(kubeconfig)).await;
    let path = format!("/api/v1/events?watch=true&resourceVersion={from}");
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let watch = client.request_events::<Value>(request).await.unwrap();
    let mut watch = std::pin::pin!(watch);
    let mut said = Vec::new();
    while said.len() < times {
        let next = tokio::time::timeout(PATIENCE, watch.try_next()).await;
        said.push(match next.unwrap().unwrap().unwrap() {
            WatchEvent::Added(event) => {
                let text = |field: &str| event["metadata"][field].as_str().unwrap().to_owned();
                (text("name"), text("resourceVersion"))
            }
            WatchEvent::Error(status) => (status.code.to_string(), String::new()),
            other => panic!("{other:?}"),
        });
    }
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_on_object_storage_is_served_where_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().join("objects").display());
    let cluster = Cluster::start().await;
    let import = |numbers: std::ops::Range<usize>| {
        let name = |number| format!("web-{number}.1");
        let object = |number| format!("web-{number}");
        let new = numbers.map(|number| {
            let object = object(number);
            event(&name(number), ("Pod", &object), "BackOff", 60)
        });
        cluster.import(&new.collect::<Vec<_>>());
    };
    import(0..20);
    let sealing = archive(&cluster, &folder.path().join("data"), &url);
    until_sealed(&url, 20);
    let data = folder.path().join("reader");
    let serve = |data: &Path| {
        let mut command = tidings(&["serve", "--secure-port=0", "--archive-refresh=1s"]);
        command.args(["--archive", &url, "--data-dir", text(data)]);
        Process::start_and_hear(command.stderr(Stdio::null())).unwrap()
    };
    let (reader, kubeconfig) = serve(&data);
    let kubeconfig = kubeconfig.trim();

    let (code, said) = ask(kubeconfig, &["events", "-A", "--no-headers"]);
    assert_eq!((code, said.lines().count()), (Some(0), 20), "{said}");
    let (code, said) = ask(kubeconfig, &["events", "-n=shop", "--for=pod/web-7"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("web-7") && !said.contains("web-8"), "{said}");
    let (code, said) = ask(kubeconfig, &["events", "-n=shop", "--history=web-7.1"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("BackOff"), "{said}");
    let (code, said) = ask(kubeconfig, &["coverage"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("prod") && said.contains("No gaps"), "{said}");
    for refused in [
        &["events", "-A", "-w"][..],
        &["record", "pod/web-1", "-n=shop", "--reason=Done", "-m=done"],
    ] {
        let (code, said) = ask(kubeconfig, refused);
        assert_ne!(code, Some(0), "{said}");
        assert!(said.contains("sealed archive of the events"), "{said}");
    }
    for (arguments, code, expected) in [
        (&["get", "events", "-A"][..], 0, "web-19"),
        (&["get", "events", "-A", "--chunk-size=3"], 0, "web-19"),
        (
            &["get", "event", "web-3.1", "-n=shop", "-o=yaml"],
            0,
            "name: web-3.1",
        ),
        (
            &[
                "get",
                "events",
                "-n=shop",
                "--field-selector=involvedObject.name=web-4",
            ],
            0,
            "pod/web-4",
        ),
        (
            &["get", "events", "-A", "-w"],
            1,
            "if it is started with --archive-waiting-from",
        ),
        (
            &["delete", "event", "web-3.1", "-n=shop"],
            1,
            "not written or deleted",
        ),
        (&["get", "namespaces"], 0, "shop"),
        (&["get", "--raw", "/readyz?verbose"], 0, "[+]store ok"),
        (
            &[
                "get",
                "--raw",
                "/timeline/api/events?cluster=prod&from=0&filter=%22OF%20web-7%22",
            ],
            0,
            "web-7.1",
        ),
        (
            &["get", "--raw", "/metrics"],
            0,
            "tidings_objects_requests_total",
        ),
    ] {
        if let Some((ended, said)) = kubectl(kubeconfig, arguments) {
            assert_eq!(ended, Some(code), "{arguments:?}: {said}");
            assert!(said.contains(expected), "{arguments:?}: {said}");
        }
    }

    // Newly sealed events are found by this reader and by another one.
    import(20..30);
    until_sealed(&url, 30);
    let (other, of_other) = serve(&folder.path().join("other"));
    for kubeconfig in [of_other.trim(), kubeconfig] {
        until(|| {
            let (_, said) = ask(kubeconfig, &["events", "-A", "--no-headers"]);
            (said.lines().count() == 30).then_some(()).ok_or(said)
        });
    }
    for process in [sealing, reader, other] {
        process.signal("KILL");
    }
}

/// Lists are in the order of objects, so that names may come in any order.
#[tokio::test(flavor = "multi_thread")]
async fn every_sealed_event_is_exported_and_counted_whatever_its_name_is() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().join("objects").display());
    let events = [("z.1", "a"), ("a.1", "b")];
    let events = events.map(|(name, pod)| event(name, ("Pod", pod), "BackOff", 60));
    let cluster = Cluster::with(&events).await;
    let sealing = archive(&cluster, &folder.path().join("data"), &url);
    until_sealed(&url, 2);
    sealing.signal("KILL");
    let mut serve = tidings(&["serve", "--secure-port=0", "--archive", &url]);
    serve.args(["--data-dir", text(&folder.path().join("reader"))]);
    let serving = Process::start_and_hear(serve.stderr(Stdio::null()));
    let (reader, kubeconfig) = serving.unwrap();

    let file = folder.path().join("events.jsonl");
    let (code, said) = ask(kubeconfig.trim(), &["export", "-A", text(&file)]);
    assert_eq!((code, said.as_str()), (Some(0), "2 events exported\n"));
    let exported = std::fs::read_to_string(&file).unwrap();
    let names: Vec<Value> = exported
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["metadata"]["name"].clone())
        .collect();
    assert_eq!(names, ["z.1", "a.1"]);
    let (code, said) = ask(kubeconfig.trim(), &["top", "-A"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("2 occurrences of 2 events"), "{said}");

    // A name does not tell which events come after it.
    let resumed = ["export", "-n=shop", "--for=pod/b", "--resume", text(&file)];
    let interrupted = [&resumed[..], &["--token=wrong"]].concat();
    let (code, said) = ask(kubeconfig.trim(), &interrupted);
    assert_eq!(code, Some(3), "{said}");
    let written = format!("{}\n", exported.lines().next_back().unwrap());
    std::fs::write(folder.path().join("events.jsonl.part"), written).unwrap();
    let (code, said) = ask(kubeconfig.trim(), &resumed);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("not in the order of names"), "{said}");
    reader.signal("KILL");
}

/// A reader shows an archive's pending versions, also after the archive was down and is back at
/// another address.
#[tokio::test(flavor = "multi_thread")]
async fn what_waits_to_be_sealed_is_served_too() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}", folder.path().join("objects").display());
    let cluster = Cluster::start().await;
    let import = |numbers: std::ops::Range<usize>| {
        let new = numbers.map(|number| {
            let object = format!("web-{number}");
            event(&format!("{object}.1"), ("Pod", &object), "BackOff", 60)
        });
        cluster.import(&new.collect::<Vec<_>>());
    };
    import(0..20);
    let data = folder.path().join("data");
    let sealing = archive(&cluster, &data, &url);
    until_sealed(&url, 20);
    // The test waits for the killed archive, which locks the folder until it has ended.
    drop(sealing);
    let following = || {
        let kubeconfig = cluster.kubeconfig();
        let mut command = tidings(&["archive", "--secure-port=0", "--name=prod"]);
        command
            .args(["--kubeconfig", text(&kubeconfig)])
            .args(["--data-dir", text(&data)])
            // The archive seals at its start, and then not during this test.
            .args(["--objects", &url, "--seal-after=1h"])
            .stderr(Stdio::null());
        let (process, kubeconfig) = Process::start_and_hear(&mut command).unwrap();
        (process, kubeconfig.trim().to_owned())
    };
    let (hot, hot_kubeconfig) = following();
    let mut serve = tidings(&["serve", "--secure-port=0", "--archive-refresh=1s"]);
    serve
        .args(["--archive", &url])
        .args(["--archive-waiting-from", &hot_kubeconfig])
        .args(["--data-dir", text(&folder.path().join("reader"))])
        .stderr(Stdio::null());
    let (reader, kubeconfig) = Process::start_and_hear(&mut serve).unwrap();
    let kubeconfig = kubeconfig.trim();
    let until_shown = |events: usize| {
        until(|| {
            let (_, said) = ask(kubeconfig, &["events", "-A", "--no-headers"]);
            (said.lines().count() == events).then_some(()).ok_or(said)
        });
    };
    until_shown(20);
    let sealed = run(&["sealed", &url]).stdout;
    import(20..30);
    until_shown(30);
    let (code, said) = ask(kubeconfig, &["events", "-n=shop", "--for=pod/web-27"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("web-27"), "{said}");
    assert_eq!(
        run(&["sealed", &url]).stdout,
        sealed,
        "nothing was sealed meanwhile"
    );
    // A watch continues from a list's resourceVersion, and from the last one that the watch
    // returned.
    let (list, first) = numbers(kubeconfig).await;
    import(30..32);
    let mut said = watched(kubeconfig, &list, 2).await;
    let (_, last) = said[1].clone();
    said.sort();
    let names: Vec<_> = said.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["web-30.1", "web-31.1"]);
    import(32..33);
    let said = watched(kubeconfig, &last, 1).await;
    assert_eq!(said[0].0, "web-32.1");
    // A listed event has its resourceVersion at the source, from which no watch can continue.
    let said = watched(kubeconfig, &first, 1).await;
    assert_eq!(said[0].0, "410");
    let metrics = metrics_of_archive(Path::new(kubeconfig), "prod").await;
    for expected in [
        "tidings_objects_seconds_since_answer{cluster=\"prod\"} ",
        "tidings_archive_state{cluster=\"prod\",state=\"sealed and waiting\"} 1",
        "tidings_archive_following_well{cluster=\"prod\"} 1",
    ] {
        assert!(metrics.contains(expected), "{metrics}");
    }
    // The last known versions are still shown, with a note that they may not be all.
    hot.signal("KILL");
    let state = |state: &str| {
        let verbose = ["get", "--raw", "/readyz?verbose"];
        let Some((code, said)) = kubectl(kubeconfig, &verbose) else {
            return Ok(());
        };
        assert_eq!(code, Some(0), "{said}");
        said.contains(state).then_some(()).ok_or(said)
    };
    until(|| state("the pending versions are not known"));
    until_shown(33);
    import(33..35);
    let (hot, _) = following();
    until_shown(35);
    until(|| state("[+]cluster prod: "));
    for process in [hot, reader] {
        process.signal("KILL");
    }
}

/// Address, region and credentials of the bucket come from the environment.
#[tokio::test(flavor = "multi_thread")]
async fn an_archive_in_a_bucket_is_written_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let server = S3Server::start(&folder.path().join("s3"));
    let url = format!("s3://{BUCKET}/archive");
    let cluster = Cluster::start().await;
    let new = (0..20).map(|number| event(&format!("web.{number}"), ("Pod", "web"), "BackOff", 60));
    cluster.import(&new.collect::<Vec<_>>());
    let mut sealing = command(&cluster, &folder.path().join("data"), &url);
    sealing.envs(server.environment());
    let (sealing, following) = Process::start_and_hear(&mut sealing).unwrap();
    let sealed = |arguments: &[&str], secret: Option<&str>| {
        let mut command = tidings(&[&["sealed", &url], arguments].concat());
        command.envs(server.environment());
        command.envs(secret.map(|secret| ("AWS_SECRET_ACCESS_KEY", secret)));
        let ran = command.output().unwrap();
        let said = [ran.stdout, ran.stderr].concat();
        (ran.status.code(), String::from_utf8(said).unwrap())
    };
    until(|| match sealed(&[], None) {
        (Some(0), said) if said.starts_with("prod: 20 versions in ") => Ok(()),
        (_, said) => Err(said),
    });
    let (code, said) = sealed(&["--check"], None);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("all 20 versions are there"), "{said}");
    let metrics = metrics_of_archive(Path::new(following.trim()), "prod").await;
    let waiting = "tidings_objects_waiting_versions{cluster=\"prod\"} ";
    assert!(metrics.contains(waiting), "{metrics}");
    let (code, said) = sealed(&[], Some("another-secret"));
    assert_eq!(code, Some(1), "{said}");
    assert!(!said.contains("secret"), "{said}");

    let mut reader = tidings(&["serve", "--secure-port=0", "--archive", &url]);
    reader.args(["--data-dir", text(&folder.path().join("reader"))]);
    reader.envs(server.environment()).stderr(Stdio::null());
    let (reader, kubeconfig) = Process::start_and_hear(&mut reader).unwrap();
    let (code, said) = ask(kubeconfig.trim(), &["events", "-A", "--no-headers"]);
    assert_eq!((code, said.lines().count()), (Some(0), 20), "{said}");
    for process in [sealing, reader] {
        process.signal("KILL");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_whose_folder_is_lost_is_continued_by_a_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let objects = folder.path().join("objects");
    let data = |number: usize| folder.path().join(format!("data-{number}"));
    let url = format!("file://{}", objects.display());
    let cluster = Cluster::start().await;
    let import = |names: std::ops::Range<usize>| {
        let new =
            names.map(|number| event(&format!("web.{number}"), ("Pod", "web"), "BackOff", 60));
        cluster.import(&new.collect::<Vec<_>>());
    };
    import(0..20);
    let process = archive(&cluster, &data(1), &url);
    until_sealed(&url, 20);
    process.signal("KILL");
    std::fs::remove_dir_all(data(1)).unwrap();

    // Events written while nothing was following are sealed, and each version once.
    import(20..40);
    // Times are written in seconds.
    let lost = format!("--objects-continue={}", ago(-2));
    let start = |number| {
        let mut command = command(&cluster, &data(number), &url);
        command.arg(&lost);
        Process::start_and_hear(&mut command).unwrap().0
    };
    let process = start(2);
    until_sealed(&url, 40);
    // After the folder has taken over, the option makes no difference.
    process.signal("KILL");
    import(40..50);
    let process = start(2);
    until_sealed(&url, 50);
    process.signal("KILL");
    let checked = run(&["sealed", &url, "--check"]);
    assert_eq!(checked.code, Some(0), "{checked:?}");

    let manifests = std::fs::read_dir(objects.join("prod/manifests")).unwrap();
    let newest = manifests.map(|found| found.unwrap().path()).max().unwrap();
    let newest: Value = serde_json::from_slice(&std::fs::read(newest).unwrap()).unwrap();
    assert_eq!(
        newest["gaps"],
        json!([]),
        "the source has all that was missed"
    );

    // The third folder has events of its own.
    let other = format!("file://{}/other", folder.path().display());
    let mut own = archive(&cluster, &data(3), &other);
    until_sealed(&other, 50);
    own.signal("KILL");
    // The process locks the folder until it has ended.
    own.wait();
    let mut refused = command(&cluster, &data(3), &url);
    let refused = refused.arg(format!("--objects-continue={}", ago(-2)));
    let refused = refused.stderr(Stdio::piped()).output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.contains("only one that never sealed, or sealed there, can continue it"),
        "{said}"
    );
}
