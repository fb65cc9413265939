//! Logins to the timeline by users of the home cluster.

use super::*;

/// The cluster that reviews the archive's tokens is a followed one: its users need not name it.
#[tokio::test]
async fn a_login_with_a_token_of_the_home_cluster_shows_that_cluster() {
    let world = World::start_with(|options, _| {
        options.security.authentication_cluster = Some(Arc::new(Named));
    })
    .await;
    let nobody = world.archive.to_root(&Credentials::Nothing).await;
    let origin = format!("https://{}", world.archive.running.address());
    let headers = [("origin", origin.as_str())];
    for (login, code) in [
        (json!({"token": "t-of-hub"}), 204),
        (json!({"token": "t-of-hub", "cluster": "home"}), 204),
        (json!({"token": "t-of-hub", "cluster": "prod"}), 401),
        // Known to the archive, and nobody at home.
        (json!({"token": "t-of-other"}), 403),
    ] {
        let path = "/timeline/login";
        let answer = nobody.try_send(Method::POST, path, &headers, &login).await;
        assert_eq!(answer.unwrap().code, code, "{login}");
    }
    let hub = world.archive.to_root(&token("t-of-hub")).await;
    let seen = hub.get("/timeline/api/events?from=0").await;
    let text = seen.body.to_string();
    assert!(seen.code == 200 && text.contains("web.1"), "{text}");
    assert!(
        !text.contains("secret.1") && !text.contains("prod.1"),
        "{text}"
    );
}
