//! `tidings archive --objects` and `tidings sealed` as programs: an archive that is killed again
//! and again seals every version once.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tidings_testing::process::Process;

use super::support::{Cluster, event, run, tidings};

/// What a slow machine may need for anything here.
const PATIENCE: Duration = Duration::from_secs(120);

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn archive(cluster: &Cluster, data: &Path, url: &str) -> Process {
    let kubeconfig = cluster.kubeconfig();
    let mut command = tidings(&["archive", "--secure-port=0", "--name=prod"]);
    command
        .args(["--kubeconfig", text(&kubeconfig)])
        .args(["--data-dir", text(data)])
        .args(["--objects", url, "--seal-after=1s"])
        .stderr(Stdio::null());
    let (process, _) = Process::start_and_hear(&mut command).unwrap();
    process
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
