//! Tests of `tidings record` with a server that fails for part of the time.

use clap::Parser;
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

/// The exit code for these arguments, and the accepted event. The server answers every look-up with
/// `look_up`, and refuses this many writes before it accepts one.
async fn recorded(words: &[&str], look_up: u16, refusals: &[u16]) -> (u8, Option<Value>) {
    let taken = Arc::new(Mutex::new(None));
    let refusals = Arc::new(Mutex::new(refusals.to_vec()));
    let kept = Arc::clone(&taken);
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (kept, refusals) = (Arc::clone(&kept), Arc::clone(&refusals));
        async move {
            let is_write = request.method() == http::Method::POST;
            let mut body = request.into_body().collect_bytes().await?.to_vec();
            let code = if is_write {
                refusals.lock().pop().unwrap_or(201)
            } else {
                look_up
            };
            if code == 201 {
                *kept.lock() = Some(serde_json::from_slice(&body)?);
            } else {
                let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": "said so"});
                body = status.to_string().into_bytes();
            }
            let answer = http::Response::builder().status(code);
            Ok::<_, tower::BoxError>(answer.body(Body::from(body))?)
        }
    });
    let server = Server {
        client: Client::new(service, "default"),
        timeout: None,
    };
    let words = [&["record", "--reason=A", "-m=x"], words].concat();
    let line = Line::try_parse_from(words).unwrap();
    let code = match write(server, &line.args).await {
        Ok(code) => code,
        Err(error) => error.exit_code(),
    };
    let taken = taken.lock().take();
    (code, taken)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_tell_of_an_object_may_still_take_events() {
    for look_up in [403, 404, 429, 503] {
        let words = ["pod/web", "--wait=10s", "--related=node/worker-1"];
        let (code, event) = recorded(&words, look_up, &[]).await;
        assert_eq!(code, DONE, "{look_up}");
        let event = event.unwrap();
        assert_eq!(event["involvedObject"]["name"], "web", "{look_up}");
        assert_eq!(event["related"]["name"], "worker-1", "{look_up}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_away_refused_nothing() {
    for look_up in [429, 500, 503] {
        // Only the server knows the kind of a widget.
        let (code, event) = recorded(&["widget/left", "--wait=10s"], look_up, &[]).await;
        assert_eq!((code, event), (UNREACHABLE, None), "{look_up}");
    }
    let (code, _) = recorded(&["widget/left", "--wait=10s"], 404, &[]).await;
    assert_eq!(code, FAILED);
    let (code, _) = recorded(&["pod/web", "--wait=10s"], 404, &[503; 1000]).await;
    assert_eq!(code, UNREACHABLE);
    let (code, _) = recorded(&["pod/web", "--wait=10s"], 404, &[422]).await;
    assert_eq!(code, FAILED);
}

/// A temporary failure is retried until the time is over, however often.
#[tokio::test(start_paused = true)]
async fn what_may_pass_is_waited_for_as_long_as_was_said() {
    for refusal in [401, 429, 503] {
        let (code, event) = recorded(&["pod/web", "--wait=1h"], 404, &[refusal; 100]).await;
        assert!(event.is_some(), "{refusal}");
        assert_eq!(code, DONE, "{refusal}");
    }
}

/// The time covers both finding the object and writing the event.
#[tokio::test(start_paused = true)]
async fn nothing_takes_longer_than_was_said() {
    for (look_up, refusals) in [(503, &[503; 1000][..]), (404, &[503; 1000]), (503, &[])] {
        let began = clock::moment();
        let (code, event) = recorded(&["pod/web", "--wait=10s"], look_up, refusals).await;
        let expected = if refusals.is_empty() {
            DONE
        } else {
            UNREACHABLE
        };
        assert_eq!((code, event.is_some()), (expected, refusals.is_empty()));
        let took = clock::moment().duration_since(began);
        assert!(took < Duration::from_secs(12), "{look_up}: {took:?}");
    }
}

/// Invalid parts are refused; none is omitted silently.
#[test]
fn what_cannot_be_recorded_as_it_is_given_is_refused() {
    for (words, is_good) in [
        (&["--annotation", "example.com/Run=4=2"][..], true),
        (&["--annotation", "a b=c"], false),
        (&["--annotation", "=c"], false),
        (&["--annotation", "a"], false),
        (&["--api-version", "v1"], true),
        (&["--api-version", "stable.example.com/v1beta1"], true),
        (&["--api-version", "a/b/c"], false),
        (&["--api-version", "example.com/"], false),
        (&["--api-version", "../v1"], false),
        (&["--api-version", ""], false),
        (&["--type", "warning"], true),
        (&["--type", "Error"], false),
        (&["--wait", "1ms"], true),
        (&["--wait", "0"], false),
    ] {
        let line = [&["record", "pod/web", "--reason=A", "-m=x"], words].concat();
        assert_eq!(Line::try_parse_from(line).is_ok(), is_good, "{words:?}");
    }
}

/// The message may be another program's output.
#[test]
fn a_message_may_begin_with_a_hyphen() {
    for message in ["- 3 files", "-x", "--wait"] {
        let words = ["record", "pod/web", "--reason=A", "-m", message];
        let line = Line::try_parse_from(words);
        assert!(
            line.is_ok_and(|line| line.args.message == message),
            "{message}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_namespace_is_that_of_the_context() {
    let (code, taken) = recorded(&["pod", "web", "-n", ""], 404, &[]).await;
    assert_eq!(code, DONE);
    assert_eq!(taken.unwrap()["metadata"]["namespace"], "default");
}
