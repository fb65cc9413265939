//! Login and its messages, and the page's accessibility (axe-core).

use serde_json::{Value, json};
use tempfile::TempDir;
use tidings_server::StartOptions;
use tidings_testing::browser::{Browser, DESKTOP};
use tidings_testing::{programs, serving};
use tokio::runtime::Runtime;

use crate::world::{World, enter, watch_clipboard};

const TOKENS: &str = "t-admin,admin,1,\"system:masters\"\nt-one,one,2\nt-two,two,3\n";

/// `one` reads the events of `shop`, `two` those of `shop` and `other`.
const PERMISSIONS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: events}
rules: [{apiGroups: ["", events.k8s.io], resources: [events], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: events}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: one}
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: two}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers, namespace: other}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: events}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: two}]
"#;

#[test]
fn a_token_is_asked_for_and_refusals_are_plain() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    let page = &world.browser;
    page.open(&world.url("?last=1h&type=Warning"));
    page.until("document.getElementById('login').open");
    page.until("document.activeElement.id === 'token'");
    page.keys("\u{e007}");
    page.until("document.getElementById('login-problem').innerText.includes('Paste a token')");
    world.log_in("not-a-token");
    page.until(
        "document.getElementById('login-problem').innerText
        .includes('does not accept this token')",
    );
    // No part of the page shows events yet.
    assert_eq!(
        page.number("document.querySelectorAll('.lane, #rows tr').length"),
        0.0
    );
    world.log_in(world.token());
    world.loaded();
    page.until("document.querySelectorAll('.lane').length > 3");
    // The query of the link is kept.
    world.address_until("q.filter === 'type:Warning'");
    assert_eq!(page.text("document.cookie"), "", "scripts see no cookie");

    page.click("#logout");
    page.until("document.getElementById('login').open");
    page.open(&world.url(""));
    page.until("document.getElementById('login').open");
}

#[test]
fn who_came_by_a_link_that_is_good_once_cannot_log_out() {
    let Some(page) = Browser::start(DESKTOP) else {
        return;
    };
    let runtime = Runtime::new().unwrap();
    let data = TempDir::new().unwrap();
    let server = runtime.block_on(serving::start(data.path(), 0));
    let timeline = runtime.block_on(server.start_timeline()).unwrap();
    page.open(&timeline.link());
    page.until("document.documentElement.dataset.loaded");
    assert!(
        page.value("document.getElementById('logout').hidden")
            .as_bool()
            .unwrap()
    );
    runtime.block_on(timeline.shutdown());
    runtime.block_on(server.shutdown());
}

#[test]
fn a_copied_command_is_of_the_namespaces_that_may_be_seen() {
    let Some(page) = Browser::start(DESKTOP) else {
        return;
    };
    let runtime = Runtime::new().unwrap();
    let folder = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(path)
    };
    let mut options = StartOptions::new(folder.path().join("data"));
    options.secure_port = 0;
    options.token_auth_file = write("tokens.csv", TOKENS);
    options.security.authorization_rbac_file = write("rbac.yaml", PERMISSIONS);
    let server = runtime.block_on(tidings_server::start(options)).unwrap();
    let address = format!("https://localhost:{}/timeline", server.address().port());
    for (token, expected, left) in [
        ("t-admin", "tidings events -A --since=", ""),
        ("t-one", "tidings events --namespace=shop --since=", ""),
        ("t-two", "tidings events -A --since=", "namespace"),
    ] {
        page.devtools("Network.clearBrowserCookies", json!({}));
        enter(&page, &address, token);
        watch_clipboard(&page);
        page.run("document.getElementById('export-command').click()");
        page.until("window.copied");
        let copied = page.text("copied");
        assert!(copied.starts_with(expected), "{token}: {copied}");
        let said = page.text("document.getElementById('notices').innerText");
        let is_left = said.contains(&format!("does not express: {left}."));
        assert_eq!(is_left, !left.is_empty(), "{token}: {said}");
    }
    runtime.block_on(server.shutdown());
}

#[test]
fn nothing_is_asked_of_any_other_host() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    let watch = "window.broken = [];
        addEventListener('securitypolicyviolation', (event) => broken.push(event.blockedURI
            + ' ' + event.violatedDirective));
        addEventListener('error', (event) => broken.push(String(event.message)));
        addEventListener('unhandledrejection', (event) => broken.push(String(event.reason)));";
    world.browser.devtools(
        "Page.addScriptToEvaluateOnNewDocument",
        json!({ "source": watch }),
    );
    world.enter("");
    let page = &world.browser;
    page.click(".lane");
    page.until("!document.getElementById('panel').hidden");
    page.click("#theme");
    page.click("#by-reason");
    let hosts = page.until(
        "(() => { const all = performance.getEntriesByType('resource')
        .map((entry) => new URL(entry.name).host); return all.length > 25
        && [...new Set(all)].join(' '); })()",
    );
    assert_eq!(hosts.as_str().unwrap(), page.text("location.host"));
    assert_eq!(
        page.value("broken"),
        json!([]),
        "the page keeps its own policy"
    );
}

/// The serious findings of axe-core.
fn findings(page: &Browser, axe: &str) -> String {
    page.run(&format!("{axe}; window.axe = axe;"));
    let found = page.run_until_done(
        "const done = arguments[0];
        axe.run().then((all) => done(all.violations
            .filter((one) => ['serious', 'critical'].includes(one.impact))
            .map((one) => one.id + ': ' + one.nodes.map((node) => node.html).join(' ')))
        , (error) => done([String(error)]));",
        json!([]),
    );
    let found = found.as_array().unwrap().iter();
    found.map(Value::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn axe_finds_nothing_serious() {
    let Some(axe) = programs::axe() else {
        return;
    };
    let axe = std::fs::read_to_string(axe).unwrap();
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.tell_story();
    world.browser.open(&world.url(""));
    world.browser.until("document.getElementById('login').open");
    assert_eq!(findings(&world.browser, &axe), "", "login");
    world.enter("");
    let page = &world.browser;
    for theme in ["light", "dark"] {
        assert_eq!(findings(page, &axe), "", "{theme}");
        page.click(".lane");
        page.until("document.querySelector('#panel .items button')");
        page.click("#panel .items button");
        page.until("document.querySelector('#panel pre')");
        assert_eq!(findings(page, &axe), "", "panel, {theme}");
        page.keys("/");
        page.keys("web");
        assert_eq!(findings(page, &axe), "", "suggestions, {theme}");
        page.keys("\u{e00c}\u{e00c}");
        page.keys("?");
        page.until("document.getElementById('help').open");
        assert_eq!(findings(page, &axe), "", "help, {theme}");
        page.keys("\u{e00c}");
        page.run("document.activeElement.blur()");
        page.keys("\u{e00c}");
        page.until("document.getElementById('panel').hidden");
        page.click("#theme");
    }
}
