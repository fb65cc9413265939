//! A browser: Chromium, driven by its chromedriver through WebDriver. The few commands of the tests
//! are sent here over a plain loopback socket; complete libraries have licences or dependencies
//! that this project does not accept.
#![expect(
    clippy::needless_pass_by_value,
    reason = "values are made for the call"
)]

use std::cell::Cell;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::{free_port, programs};

/// Maximum time in milliseconds to wait for a condition, for busy machines.
const PATIENCE: u64 = 30_000;

/// A running browser with one window.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// The number of the last sequence of pointer actions: each has a name of its own.
    pointers: Cell<u32>,
}

/// The settings of a window.
#[derive(Clone, Copy)]
pub struct Window {
    /// In CSS pixels.
    pub width: u32,
    /// In CSS pixels.
    pub height: u32,
    /// The preferred theme.
    pub dark: bool,
    /// Pixels of the device to a CSS pixel.
    pub scale: f64,
}

/// The window of a browser on a desktop.
pub const DESKTOP: Window = Window {
    width: 1440,
    height: 900,
    dark: false,
    scale: 1.0,
};
/// The window of a browser on a phone.
pub const PHONE: Window = Window {
    width: 400,
    height: 860,
    dark: true,
    scale: 1.0,
};

impl Browser {
    /// Starts a browser with a profile of its own; `None` if there is no Chromium.
    pub fn start(window: Window) -> Option<Self> {
        let chromium = programs::chromium()?;
        let mut driver = Command::new(programs::chromedriver()?)
            .arg(format!("--port={}", free_port()))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let port = port_of(&mut driver);
        let mut browser = Self {
            driver,
            port,
            session: String::new(),
            pointers: Cell::new(0),
        };
        browser.session = browser.new_session(&chromium);
        browser.resize(window);
        Some(browser)
    }

    fn new_session(&self, chromium: &Path) -> String {
        let options = json!({ "binary": chromium, "args": [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-dev-shm-usage", "--window-size=1440,900",
        ]});
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome", "acceptInsecureCerts": true, "goog:chromeOptions": options,
            "timeouts": { "script": PATIENCE + 10_000, "pageLoad": PATIENCE },
        }}});
        let answer = self.ask("POST", "/session", Some(&wanted));
        answer["sessionId"].as_str().unwrap().to_owned()
    }

    /// Gives the window another size, theme or scale.
    pub fn resize(&self, window: Window) {
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": window.width, "height": window.height, "mobile": false,
                "deviceScaleFactor": window.scale }),
        );
        let scheme = if window.dark { "dark" } else { "light" };
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.devtools(
            "Emulation.setEmulatedMedia",
            json!({ "features": [feature] }),
        );
        self.devtools(
            "Emulation.setTimezoneOverride",
            json!({ "timezoneId": "Europe/Berlin" }),
        );
    }

    /// Sends a command of the browser's own protocol (DevTools).
    pub fn devtools(&self, command: &str, params: Value) -> Value {
        self.command(
            "POST",
            "/goog/cdp/execute",
            &json!({ "cmd": command, "params": params }),
        )
    }

    /// Opens an address, and waits for the page's load event.
    pub fn open(&self, url: &str) {
        self.command("POST", "/url", &json!({ "url": url }));
    }

    /// The address of the page.
    pub fn url(&self) -> String {
        let answer = self.ask("GET", &format!("/session/{}/url", self.session), None);
        answer.as_str().unwrap().to_owned()
    }

    /// The value of an expression in the page.
    pub fn value(&self, expression: &str) -> Value {
        self.run(&format!("return ({expression})"))
    }

    /// The text of an expression in the page; empty if it has another type.
    pub fn text(&self, expression: &str) -> String {
        self.value(expression)
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The number of an expression in the page.
    pub fn number(&self, expression: &str) -> f64 {
        self.value(expression).as_f64().unwrap()
    }

    /// Runs a script in the page, and returns what it returns.
    pub fn run(&self, script: &str) -> Value {
        self.command(
            "POST",
            "/execute/sync",
            &json!({ "script": script, "args": [] }),
        )
    }

    /// Runs a script that calls `done`, its last argument, when it has ended. Returns what it
    /// passes to that.
    pub fn run_until_done(&self, script: &str, args: Value) -> Value {
        self.command(
            "POST",
            "/execute/async",
            &json!({ "script": script, "args": args }),
        )
    }

    /// Waits in the page until an expression is true, and returns it.
    #[track_caller]
    pub fn until(&self, expression: &str) -> Value {
        // The expression is part of the script, since the page's policy forbids `eval`.
        let script = format!(
            "const [patience, done] = arguments;
            const condition = () => ({expression});
            const end = performance.now() + patience;
            const look = () => {{
                let value = false;
                try {{ value = condition(); }} catch {{ /* Not there yet. */ }}
                if (value) done({{ value }});
                else if (performance.now() < end) setTimeout(look, 20);
                else done({{ failed: document.body.innerText.slice(0, 2000) }});
            }};
            look();"
        );
        let answer = self.run_until_done(&script, json!([PATIENCE]));
        assert!(
            answer.get("value").is_some(),
            "never true: {expression}\nthe page: {}",
            answer["failed"].as_str().unwrap_or_default()
        );
        answer["value"].clone()
    }

    /// Types into the focused element. Special keys are written as their WebDriver code points.
    pub fn keys(&self, text: &str) {
        let actions: Vec<Value> = text
            .chars()
            .flat_map(|key| ["keyDown", "keyUp"].map(|step| json!({ "type": step, "value": key })))
            .collect();
        self.act(json!([{ "type": "key", "id": "keyboard", "actions": actions }]));
    }

    /// Clicks on the middle of the first element that matches a selector.
    #[track_caller]
    pub fn click(&self, selector: &str) {
        let quoted = json!(selector);
        let middle = self.value(&format!(
            "(() => {{ const node = document.querySelector({quoted});
                if (!node) return null;
                node.scrollIntoView({{ block: 'nearest' }});
                const box = node.getBoundingClientRect();
                return [box.left + box.width / 2, box.top + box.height / 2]; }})()"
        ));
        let at = |index: usize| middle[index].as_f64();
        let (Some(x), Some(y)) = (at(0), at(1)) else {
            panic!("there is no {selector}");
        };
        self.drag(&[(x, y)], false);
    }

    /// Moves the pointer to a place.
    pub fn hover(&self, x: f64, y: f64) {
        let actions = json!([{ "type": "pointerMove", "x": whole(x), "y": whole(y) }]);
        self.act(json!([self.mouse(&actions)]));
    }

    /// Clicks twice at a place, with a pause between as a person makes.
    pub fn double_click(&self, x: f64, y: f64) {
        let down = json!({ "type": "pointerDown", "button": 0 });
        let up = json!({ "type": "pointerUp", "button": 0 });
        let pause = json!({ "type": "pause", "duration": 120 });
        let there = json!({ "type": "pointerMove", "x": whole(x), "y": whole(y), "duration": 0 });
        let actions = json!([there, down, up, pause, down, up]);
        self.act(json!([self.mouse(&actions)]));
    }

    /// Presses the button at the first point, moves over the others, and releases it at the last.
    pub fn drag(&self, points: &[(f64, f64)], shift: bool) {
        let mut actions = Vec::new();
        for (index, (x, y)) in points.iter().enumerate() {
            let duration = if index == 0 { 0 } else { 40 };
            actions.push(
                json!({ "type": "pointerMove", "x": whole(*x), "y": whole(*y),
                "duration": duration }),
            );
            if index == 0 {
                actions.push(json!({ "type": "pointerDown", "button": 0 }));
            }
        }
        actions.push(json!({ "type": "pointerUp", "button": 0 }));
        let mouse = self.mouse(&json!(actions));
        self.with_key(shift.then_some('\u{e008}'), actions.len(), mouse);
    }

    /// Turns the wheel with a key held down.
    pub fn wheel(&self, x: f64, y: f64, delta: i32, key: char) {
        let turn = json!({ "type": "scroll", "x": whole(x), "y": whole(y), "deltaX": 0,
            "deltaY": delta, "duration": 0 });
        self.with_key(
            Some(key),
            1,
            json!({ "type": "wheel", "id": "wheel", "actions": [turn] }),
        );
    }

    /// Moves two fingers, each from one place to another.
    pub fn pinch(&self, fingers: [((f64, f64), (f64, f64)); 2]) {
        let sources: Vec<Value> = fingers
            .iter()
            .enumerate()
            .map(|(index, (from, to))| {
                let between = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1));
                let at = |(x, y): (f64, f64)| {
                    json!({ "type": "pointerMove", "x": whole(x), "y": whole(y), "duration": 40 })
                };
                json!({ "type": "pointer", "id": format!("finger {index}"),
                    "parameters": { "pointerType": "touch" }, "actions": [
                        at(*from), { "type": "pointerDown", "button": 0 }, at(between), at(*to),
                        { "type": "pointerUp", "button": 0 },
                ]})
            })
            .collect();
        self.act(json!(sources));
    }

    fn mouse(&self, actions: &Value) -> Value {
        self.pointers.set(self.pointers.get() + 1);
        json!({ "type": "pointer", "id": format!("mouse {}", self.pointers.get()),
            "parameters": { "pointerType": "mouse" }, "actions": actions })
    }

    /// Performs the actions of one input source while a key is down.
    fn with_key(&self, key: Option<char>, steps: usize, source: Value) {
        let Some(key) = key else {
            self.act(json!([source]));
            return;
        };
        let pause = json!({ "type": "pause" });
        let mut held = vec![json!({ "type": "keyDown", "value": key })];
        held.extend(vec![pause.clone(); steps]);
        held.push(json!({ "type": "keyUp", "value": key }));
        let mut source = source;
        if let Some(actions) = source["actions"].as_array_mut() {
            actions.insert(0, pause);
        }
        self.act(json!([{ "type": "key", "id": "keyboard", "actions": held }, source]));
    }

    fn act(&self, sources: Value) {
        self.command("POST", "/actions", &json!({ "actions": sources }));
    }

    /// The content of the window as PNG.
    pub fn screenshot(&self) -> Vec<u8> {
        let path = format!("/session/{}/screenshot", self.session);
        let answer = self.ask("GET", &path, None);
        STANDARD.decode(answer.as_str().unwrap()).unwrap()
    }

    #[track_caller]
    fn command(&self, method: &str, path: &str, body: &Value) -> Value {
        self.ask(
            method,
            &format!("/session/{}{path}", self.session),
            Some(body),
        )
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let (status, answer) = exchange(self.port, method, path, body);
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends its browser; a failed test has reported its reason already.
        if !self.session.is_empty() {
            let path = format!("/session/{}", self.session);
            let _ = std::panic::catch_unwind(|| exchange(self.port, "DELETE", &path, None));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The port that a driver prints.
fn port_of(driver: &mut Child) -> u16 {
    let output = driver.stdout.take().unwrap();
    let mut lines = BufReader::new(output).lines().map_while(Result::ok);
    let said = lines
        .find(|line| line.contains("successfully on port"))
        .unwrap();
    // Later output is read and dropped, so that it never blocks.
    std::thread::spawn(move || lines.for_each(drop));
    let port = said.trim_end_matches('.').rsplit(' ').next().unwrap();
    port.parse().unwrap()
}

/// One request and its answer.
fn exchange(port: u16, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).unwrap().parse().unwrap();
    let mut length = 0;
    loop {
        line.clear();
        stream.read_line(&mut line).unwrap();
        let lower = line.trim_end().to_ascii_lowercase();
        if lower.is_empty() {
            break;
        }
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).unwrap();
    (status, serde_json::from_slice(&answer).unwrap_or_default())
}

/// WebDriver takes whole pixels.
#[expect(
    clippy::cast_possible_truncation,
    reason = "places in a window are small"
)]
fn whole(pixels: f64) -> i64 {
    pixels.round() as i64
}
