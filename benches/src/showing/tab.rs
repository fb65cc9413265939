//! A tab of a browser. Scripts in the page measure its speed with the browser's clock.

use serde_json::{Value, json};
use tidings_testing::browser::{Browser, DESKTOP};

use super::answers::PERCENTILES;
use crate::{Failure, Figure};

/// A script: makes bursts of pans and zooms by the wheel, one gesture for each frame. In the pauses
/// between them, what is now in view is loaded. It measures for each gesture the time until it is
/// drawn: a message that is sent in the frame after the page has drawn is received when that frame
/// is done. It also measures the time of every frame, including those in the pauses.
const GESTURES: &str = "const [selector, bursts, done] = arguments;
    const box = document.querySelector(selector);
    const at = box.getBoundingClientRect();
    const [x, y] = [at.left + at.width * 0.6, at.top + Math.min(at.height, 400) / 2];
    const [drawn, frames] = [[], []];
    const LENGTH = 30, PAUSE = 30;
    let turn = 0;
    let last = performance.now();
    const frame = () => {
        const now = performance.now();
        frames.push(now - last);
        last = now;
        const inside = turn % (LENGTH + PAUSE);
        const burst = Math.floor(turn / (LENGTH + PAUSE));
        if (burst >= bursts) {
            return done({ drawn: drawn.slice(1), frames: frames.slice(1) });
        }
        turn += 1;
        requestAnimationFrame(frame);
        if (inside >= LENGTH) return;
        const begun = performance.now();
        const zooms = burst % 2 === 0;
        const deltaY = inside < LENGTH / 2 === burst % 4 < 2 ? -30 : 30;
        box.dispatchEvent(new WheelEvent('wheel', { bubbles: true, cancelable: true,
            ctrlKey: zooms, shiftKey: !zooms, deltaY, clientX: x, clientY: y }));
        requestAnimationFrame(() => {
            const channel = new MessageChannel();
            channel.port1.onmessage = () => drawn.push(performance.now() - begun);
            channel.port2.postMessage(0);
        });
    };
    requestAnimationFrame(frame);";

/// An open tab.
pub(super) struct Tab {
    pub(super) browser: Browser,
}

impl Tab {
    /// # Errors
    /// There is no browser.
    pub(super) fn new() -> Result<Self, Failure> {
        let browser = Browser::start(DESKTOP).ok_or("no chromium with its chromedriver")?;
        Ok(Self { browser })
    }

    /// The browser's name and version.
    pub(super) fn program(&self) -> String {
        let agent = self.browser.text("navigator.userAgent");
        let found = agent.split(' ').find(|word| word.contains("Chrome/"));
        found.unwrap_or_default().to_owned()
    }

    /// Pans and zooms what the selector finds, and adds the times to the figure.
    pub(super) fn gestures(&self, selector: &str, bursts: u64, figure: Figure) -> Figure {
        let found = self
            .browser
            .run_until_done(GESTURES, json!([selector, bursts]));
        let (drawn, frames) = (numbers(&found["drawn"]), numbers(&found["frames"]));
        figure
            .times("", &PERCENTILES, &mut drawn.into_iter().collect())
            .times("frame_", &PERCENTILES, &mut frames.into_iter().collect())
    }

    /// Bytes of the page's objects that are in use, and number of its nodes, after garbage
    /// collection.
    pub(super) fn memory(&self) -> (f64, f64) {
        self.browser
            .devtools("HeapProfiler.collectGarbage", json!({}));
        let used = self.browser.devtools("Runtime.getHeapUsage", json!({}));
        let counted = self.browser.devtools("Memory.getDOMCounters", json!({}));
        let number = |value: &Value| value.as_f64().unwrap_or(0.);
        (number(&used["usedSize"]), number(&counted["nodes"]))
    }
}

/// The numbers that a script returned.
pub(super) fn numbers(found: &Value) -> Vec<f64> {
    let found = found.as_array().into_iter().flatten();
    found.filter_map(Value::as_f64).collect()
}
