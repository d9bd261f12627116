//! Against servers that answer as a test says.

use serde_json::json;

use super::*;
use crate::observe::scripted::{Answer, answering, client};

const PATH: &str = "/apis/g/v1/things";

fn page(version: &str, token: &str, names: &[&str]) -> Answer {
    let items: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
    Answer::json(json!({
        "items": items, "metadata": {"resourceVersion": version, "continue": token},
    }))
}

fn name(text: &str) -> Result<String, String> {
    let object: serde_json::Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let name = object["name"].as_str().ok_or("no name")?;
    Ok(name.to_owned())
}

async fn listed(client: &Client) -> Result<Listed<String>, ObserveError> {
    list(client, "the things", PATH, Form::Whole, name).await
}

#[tokio::test]
async fn pages_of_one_state_make_one_list() {
    let (client, asked) = client(vec![
        page("7", "a+b/c=", &["a", "b"]),
        page("7", "d", &["c"]),
        Answer::json(json!({"items": null, "metadata": {"resourceVersion": "7"}})),
    ]);
    let all = listed(&client).await.expect("a list");
    assert_eq!(all.items, ["a", "b", "c"]);
    assert_eq!((all.pages, all.restarts), (3, 0));
    assert_eq!(all.resource_version, "7");
    assert_eq!(
        asked.lines(),
        [
            "GET /apis/g/v1/things?limit=500",
            "GET /apis/g/v1/things?limit=500&continue=a%2Bb%2Fc%3D",
            "GET /apis/g/v1/things?limit=500&continue=d",
        ]
    );
}

#[tokio::test]
async fn a_forgotten_state_begins_the_list_again_and_its_token_is_not_taken() {
    let (client, asked) = client(vec![
        page("7", "t", &["a"]),
        Answer::refused(410, "Expired"),
        page("9", "u", &["a", "b"]),
        page("9", "", &["c"]),
    ]);
    let all = listed(&client).await.expect("a list");
    assert_eq!(all.items, ["a", "b", "c"]);
    assert_eq!(
        (all.resource_version.as_str(), all.pages, all.restarts),
        ("9", 2, 1)
    );
    assert!(
        asked
            .lines()
            .iter()
            .all(|line| !line.contains("inconsistent"))
    );
}

#[tokio::test]
async fn a_page_of_another_state_is_never_merged() {
    let (client, _) = client(vec![
        page("7", "t", &["gone since"]),
        page("8", "", &["c"]),
        page("8", "", &["a"]),
    ]);
    let all = listed(&client).await.expect("a list");
    assert_eq!((all.items, all.restarts), (vec!["a".to_owned()], 1));
}

#[tokio::test]
async fn a_server_that_always_forgets_is_given_up() {
    let (client, asked) = answering(|line| {
        if line.contains("continue") {
            Answer::refused(410, "Expired")
        } else {
            page("7", "t", &["a"])
        }
    });
    let error = listed(&client).await.expect_err("no list");
    assert_eq!(
        error.to_string(),
        "the things could not be listed from one state of the cluster in 5 attempts"
    );
    assert!(error.hint().is_some());
    assert_eq!(asked.lines().len(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_passes_costs_a_page_and_not_the_list() {
    let (client, _) = client(vec![
        page("7", "t", &["a"]),
        Answer::refused(503, "ServiceUnavailable"),
        Answer::refused(429, "TooManyRequests"),
        page("7", "", &["b"]),
    ]);
    let all = listed(&client).await.expect("a list");
    assert_eq!((all.items.len(), all.restarts), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_pass_is_an_error_with_its_hint() {
    let (forbidden, asked) = client(vec![Answer::refused(403, "Forbidden")]);
    let error = listed(&forbidden).await.expect_err("no permission");
    assert!(error.hint().is_some(), "{error}");
    assert_eq!(asked.lines().len(), 1);
    let (down, asked) = answering(|_| Answer::refused(500, "InternalError"));
    let error = listed(&down).await.expect_err("a failure");
    assert_eq!(error.to_string(), "cannot read the things");
    assert_eq!(asked.lines().len(), 5);
}

#[tokio::test]
async fn an_answer_that_is_no_list_is_named() {
    for body in [
        "",
        "{}",
        "{\"items\": [{}], \"metadata\": {\"resourceVersion\": \"1\"}}",
    ] {
        let (client, _) = client(vec![Answer::text(200, body)]);
        let error = listed(&client).await.expect_err("no list");
        assert!(matches!(error, ObserveError::Unreadable { .. }), "{error}");
    }
}

#[tokio::test]
async fn metadata_is_asked_for_as_such() {
    let (client, asked) = client(vec![page("7", "", &[])]);
    let all = list(&client, "the things", PATH, Form::Metadata, name).await;
    assert!(all.expect("a list").items.is_empty());
    assert_eq!(
        asked.forms(),
        ["application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"]
    );
}
