//! Registering, verifying, showing and deleting.

use reqwest::Method;
use serde_json::{Value, json};

use super::receiver::{Manners, Receiver};
use super::{active, at, believing, hook, shown, told, with_endpoint};
use crate::house::{House, until};

#[tokio::test]
async fn an_endpoint_that_echoes_the_challenge_becomes_active_by_itself_and_hears_of_mail_that_waits() {
    let (house, receiver) = with_endpoint().await;
    let agent = house.register().await;
    let registered = hook(&house, &agent, &receiver.url("/a")).await;
    assert_eq!(registered["state"], "pending");
    assert_eq!(registered["url"], receiver.url("/a"));
    let challenge = registered["challenge"].as_str().unwrap();
    assert!(registered["instructions"].as_str().unwrap().contains("whsec_"), "{registered}");
    until("told of the welcome", async || !receiver.notices("/a").is_empty()).await;
    assert_eq!(receiver.requests()[0], format!("GET /a?challenge={challenge}"));
    let shown = shown(&house, &agent).await;
    assert_eq!(shown["state"], "active");
    assert!(shown["verified_at"].is_string() && shown["last_failure_at"].is_null(), "{shown}");
    assert!(shown.get("challenge").is_none() && !shown.to_string().contains(challenge), "{shown}");
    let notice = receiver.notices("/a")[0].json();
    assert_eq!((&notice["pending"], &notice["cursor"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn an_endpoint_that_does_not_echo_stays_pending_says_why_and_is_verified_later() {
    let (house, receiver) = with_endpoint().await;
    let cases = [
        (Manners::Status(500), "status_500"),
        (Manners::Status(404), "status_404"),
        (Manners::Redirects, "redirected"),
        (Manners::Huge, "answer_too_large"),
        (Manners::Babbles, "broken_answer"),
        (Manners::HangsUp, "broken_answer"),
        (Manners::Quotes, "challenge_not_echoed"),
    ];
    for (number, (manners, reason)) in cases.into_iter().enumerate() {
        let (agent, path) = (house.register().await, format!("/{number}"));
        receiver.behave(&path, manners);
        hook(&house, &agent, &receiver.url(&path)).await;
        let failed = async || shown(&house, &agent).await["last_failure_reason"] == reason;
        until(reason, failed).await;
        let tried = house.ok(&agent, "webhook_verify", json!({})).await;
        assert_eq!((&tried["state"], &tried["verified"]), (&json!("pending"), &json!(false)), "{manners:?}");
        assert!(tried["last_failure_at"].is_string(), "{tried}");
        receiver.behave(&path, Manners::Fine);
        let tried = house.ok(&agent, "webhook_verify", json!({})).await;
        assert_eq!((&tried["state"], &tried["verified"]), (&json!("active"), &json!(true)));
        until("told", async || !receiver.notices(&path).is_empty()).await;
    }
    assert!(
        !receiver.requests().iter().any(|request| request.contains("elsewhere")),
        "a redirect was followed"
    );
}

#[tokio::test]
async fn a_host_without_a_believed_certificate_and_one_where_nobody_listens_are_unreachable() {
    let house = House::open().await;
    let receiver = Receiver::open().await;
    let nobody = Receiver::open().await.address;
    for url in [receiver.url("/a"), format!("https://{nobody}/a")] {
        let agent = house.register().await;
        hook(&house, &agent, &url).await;
        let failed = async || shown(&house, &agent).await["last_failure_reason"] == "unreachable";
        until("unreachable", failed).await;
    }
    assert!(receiver.requests().is_empty());
}

#[tokio::test]
async fn registering_again_replaces_the_endpoint_and_a_refused_one_leaves_the_old() {
    let (house, receiver) = with_endpoint().await;
    let agent = told(&house, &receiver, "/old").await;
    let before = row(&house).await;
    for url in ["http://hooks.example.com/", "https://10.0.0.1/", "https://hooks.example.com:22/", "nonsense"]
    {
        let arguments = json!({ "url": url, "secret": "other" });
        let problem = house.refused(&agent, "webhook_register", arguments, "validation_error").await;
        assert_eq!(problem["details"]["field"], "url");
        assert!(problem["details"]["reason"].is_string(), "{problem}");
        assert!(!problem.to_string().contains(url), "{problem}");
    }
    assert_eq!(row(&house).await, before);
    active(&house, &agent, &receiver.url("/new")).await;
    until("told again", async || !receiver.notices("/new").is_empty()).await;
    assert_eq!(receiver.notices("/old").len(), 1);
}

#[tokio::test]
async fn a_webhook_is_shown_and_deleted_by_its_routes_and_then_there_is_none() {
    let (house, receiver) = with_endpoint().await;
    let agent = told(&house, &receiver, "/a").await;
    let put = house.http().put(format!("{}/api/v1/agents/{}/webhook", house.url(0), agent.id));
    let put =
        house.send(put.json(&json!({ "url": receiver.url("/b"), "secret": "s" })), Some(&agent.key)).await;
    assert_eq!((put.status, &put.body["state"]), (200, &json!("pending")));
    let verified = house.http().post(format!("{}/api/v1/agents/{}/webhook/verify", house.url(0), agent.id));
    let verified = house.send(verified.json(&json!({})), Some(&agent.key)).await;
    assert_eq!((verified.status, &verified.body["verified"]), (200, &json!(true)), "{}", verified.body);
    let deleted = at(&house, &agent, Method::DELETE, "").await;
    assert_eq!((deleted.status, &deleted.body), (204, &json!("")));
    for (method, rest) in [(Method::GET, ""), (Method::DELETE, "")] {
        assert_eq!(at(&house, &agent, method, rest).await.status, 404);
    }
    house.refused(&agent, "webhook_verify", json!({}), "not_found").await;
    house.refused(&agent, "webhook_delete", json!({}), "not_found").await;
}

#[tokio::test]
async fn an_agent_manages_the_webhooks_of_its_owners_agents_and_of_no_others() {
    let (house, receiver) = with_endpoint().await;
    let ada = house.register().await;
    let sister = house.register_with(json!({ "owner_key": ada.owner_key })).await;
    let stranger = house.register().await;
    let of = |id: &str| json!({ "url": receiver.url("/a"), "secret": "s", "agent_id": id });
    house.ok(&ada, "webhook_register", of(&sister.id)).await;
    assert_eq!(shown(&house, &sister).await["url"], receiver.url("/a"));
    house.refused(&ada, "webhook_register", of(&stranger.id), "forbidden").await;
    house.refused(&ada, "webhook_verify", json!({ "agent_id": stranger.id }), "forbidden").await;
    house.refused(&ada, "webhook_delete", json!({ "agent_id": stranger.id }), "forbidden").await;
    let nobody = "0192d3c4-5b6a-7c8d-9e0f-a1b2c3d4e5f6";
    house.refused(&ada, "webhook_register", of(nobody), "not_found").await;
}

#[tokio::test]
async fn a_secret_and_its_key_stand_nowhere_in_the_database() {
    let (house, receiver) = with_endpoint().await;
    told(&house, &receiver, "/a").await;
    let row = row(&house).await.to_string();
    // By Python's hashlib: the SHA-256 of hunter2, as text and as the bytes of that text.
    let key = "f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7";
    let bytes: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
    for secret in ["hunter2", key, &bytes] {
        assert!(!row.contains(secret), "{row}");
    }
}

#[tokio::test]
async fn racing_registrations_leave_one_webhook_that_works() {
    let (mut house, receiver) = with_endpoint().await;
    house.add_pod(believing(), waypost::registry()).await;
    let agent = house.register().await;
    let urls: Vec<String> = (0..8).map(|number| receiver.url(&format!("/{number}"))).collect();
    let racing = urls.iter().enumerate().map(|(number, url)| {
        house.call(number % 2, &agent, "webhook_register", json!({ "url": url, "secret": "s" }))
    });
    for answer in futures::future::join_all(racing).await {
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    until("active", async || shown(&house, &agent).await["state"] == "active").await;
    let stands = shown(&house, &agent).await["url"].as_str().unwrap().to_owned();
    let path = stands.rsplit_once('/').map(|(_, path)| format!("/{path}")).unwrap();
    until("told", async || !receiver.notices(&path).is_empty()).await;
}

async fn row(house: &House) -> Value {
    sqlx::query_scalar("select to_jsonb(w) - 'due_at' from webhook w").fetch_one(&house.db).await.unwrap()
}
