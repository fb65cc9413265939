//! `tidings archive --objects` and `tidings sealed` as programs: an archive that is killed again
//! and again seals every version once.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidings_testing::process::Process;

use super::support::{Cluster, event, run, tidings};

/// What a slow machine may need for anything here.
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

/// Waits until a number of versions is sealed.
#[track_caller]
#[expect(
    clippy::disallowed_methods,
    reason = "it is waited for what another program does"
)]
fn until_sealed(url: &str, versions: usize) {
    let began = Instant::now();
    let beginning = format!("prod: {versions} versions in ");
    loop {
        let ran = run(&["sealed", url]);
        if ran.stdout.starts_with(&beginning) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{versions}: {ran:?}");
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
    // Paths that an engine can open.
    let files = run(&["sealed", &url, "--cluster=prod", "--files"]).stdout;
    let files: Vec<_> = files.lines().map(Path::new).collect();
    assert!(
        !files.is_empty() && files.iter().all(|file| file.is_file()),
        "{files:?}"
    );

    std::fs::write(files[0], "torn").unwrap();
    let damaged = run(&["sealed", &url, "--check"]);
    assert_eq!(damaged.code, Some(1), "{damaged:?}");
    assert!(
        damaged.stdout.contains("not those that were written"),
        "{damaged:?}"
    );
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

    // What is written while nothing follows is there, and nothing is there twice.
    import(20..40);
    let start = |number| {
        let mut command = command(&cluster, &data(number), &url);
        command.arg("--objects-continue");
        Process::start_and_hear(&mut command).unwrap().0
    };
    let process = start(2);
    until_sealed(&url, 40);
    // Once it is begun, the option makes no difference.
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

    // The third one has events of its own.
    let other = format!("file://{}/other", folder.path().display());
    let own = archive(&cluster, &data(3), &other);
    until_sealed(&other, 50);
    own.signal("KILL");
    let mut refused = command(&cluster, &data(3), &url);
    let refused = refused.arg("--objects-continue").stderr(Stdio::piped());
    let refused = refused.output().unwrap();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("only a new one can continue it"), "{said}");
}
