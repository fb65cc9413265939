//! k9s, unmodified, in a terminal: its view of events lists what an archive has, and shows
//! what the archive's source receives.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::sleep;

use crate::error::Result;
use crate::kube_rs::Recorded;

const NAMESPACE: &str = "k9s";
/// Maximum attempts to find a text on the screen, for slow machines.
const TRIES: usize = 300;
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

/// A terminal with k9s in it. It ends when this is dropped.
struct Terminal {
    tmux: PathBuf,
    /// The socket of a tmux server of this terminal alone.
    socket: PathBuf,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let mut end = std::process::Command::new(&self.tmux);
        end.arg("-S").arg(&self.socket).arg("kill-server");
        // tmux may have ended together with k9s.
        let _ = end.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

impl Terminal {
    async fn tmux(&self, words: &[&str]) -> Result<Output> {
        let mut tmux = Command::new(&self.tmux);
        tmux.arg("-S").arg(&self.socket).args(words);
        Ok(tmux.stdin(Stdio::null()).output().await?)
    }

    /// Waits until the screen shows all of these texts. If it does not, returns the screen.
    async fn shows(&self, texts: &[&str]) -> Result<std::result::Result<String, String>> {
        let mut screen = String::new();
        for _ in 0..TRIES {
            let output = self.tmux(&["capture-pane", "-p"]).await?;
            screen = String::from_utf8_lossy(&output.stdout).into_owned();
            if texts.iter().all(|text| screen.contains(text)) {
                return Ok(Ok(screen));
            }
            sleep(BETWEEN_TRIES).await;
        }
        Ok(Err(screen))
    }
}

/// Runs k9s. Returns its last screen if something was missing there.
pub(crate) async fn judge(
    k9s: &Path,
    source: &Path,
    archive: &Path,
    folder: &Path,
) -> Result<std::result::Result<String, String>> {
    let recorded = Recorded::at(source, NAMESPACE).await?;
    recorded.create("first").await?;
    let terminal = Terminal {
        tmux: PathBuf::from("tmux"),
        socket: folder.join("tmux"),
    };
    // Without this setting k9s asks the network for a newer version.
    let settings = "k9s:\n  skipLatestRevCheck: true\n";
    std::fs::write(folder.join("config.yaml"), settings)?;
    let quoted = |path: &Path| format!("'{}'", path.display());
    let command = format!(
        "HOME={0} K9S_CONFIG_DIR={0} K9S_LOGS_DIR={0} {1} --kubeconfig {2} --namespace {NAMESPACE} --command events --headless",
        quoted(folder),
        quoted(k9s),
        quoted(archive),
    );
    let start = ["new-session", "-d", "-x", "160", "-y", "24", &command];
    let started = terminal.tmux(&start).await?;
    if !started.status.success() {
        return Ok(Err(String::from_utf8_lossy(&started.stderr).into_owned()));
    }
    if let Err(screen) = terminal.shows(&["first", "Tested"]).await? {
        return Ok(Err(format!("it does not list:\n{screen}")));
    }
    recorded.create("second").await?;
    let followed = terminal.shows(&["first", "second"]).await?;
    Ok(followed.map_err(|screen| format!("it does not follow:\n{screen}")))
}
