//! Claims at the same time, on two pods: no message to two runs, one batch to one run.

use futures::future::join_all;
use serde_json::json;

use super::claim::with_mail;
use super::{ids, nobody, summary};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_runs_on_two_pods_share_no_message() {
    let (house, _, bob, sent) = with_mail(2, 40).await;
    let claims = (0..12).map(|racer| house.call(racer % 2, &bob, "mailbox_claim", json!({ "limit": 5 })));
    let claims = join_all(claims).await;
    let mut leased: Vec<String> = claims.iter().flat_map(|claim| ids(&claim.body["messages"])).collect();
    let count = leased.len();
    leased.sort_unstable();
    leased.dedup();
    assert_eq!(leased.len(), count, "a message was leased twice");
    // A claim skips what another has at hand; the next one gets it.
    let rest = house.ok(&bob, "mailbox_claim", json!({})).await;
    assert_eq!(count + ids(&rest["messages"]).len(), sent.len());
    assert_eq!(summary(&house, &bob).await["claimed"], 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_claims_of_one_run_on_two_pods_get_one_batch() {
    let (house, _, bob, _) = with_mail(2, 30).await;
    for _ in 0..5 {
        let arguments = json!({ "run_id": nobody(), "limit": 3 });
        let claims = (0..6).map(|racer| house.call(racer % 2, &bob, "mailbox_claim", arguments.clone()));
        let claims = join_all(claims).await;
        let first = &claims[0].body;
        assert_eq!(ids(&first["messages"]).len(), 3);
        for claim in &claims {
            assert_eq!(
                (&claim.body["messages"], &claim.body["lease_expires_at"]),
                (&first["messages"], &first["lease_expires_at"])
            );
        }
    }
    assert_eq!(summary(&house, &bob).await["claimed"], 15);
}
