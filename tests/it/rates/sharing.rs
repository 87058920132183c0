//! Pods share the limit: each allows its part once it knows of the others.

use super::{HERE, call, limited, register, until_refused};
use crate::house::{Agent, House, until};

/// Waits until every pod knows of so many.
async fn all_know(house: &House, pods: u32) {
    until("the pods know of each other", async || house.pods.iter().all(|pod| pod.limits.pods() == pods))
        .await;
}

/// Stamps so many pods that are not there, until the test ends.
pub async fn pretend_pods(house: &House, count: u32) {
    let many = "insert into live_pod select gen_random_uuid(), clock_timestamp() + interval '1 hour'
                from generate_series(1, $1)";
    sqlx::query(many).bind(count.cast_signed()).execute(&house.db).await.unwrap();
    all_know(house, count + 1).await;
}

/// How much a new credential is let in at once, as a pod tells it.
async fn quota(house: &House, pod: usize, agent: &Agent) -> String {
    let answer = call(house, pod, HERE, Some(&agent.key)).await;
    answer.headers["ratelimit-policy"].to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_pods_each_allow_half_and_one_that_stops_gives_its_half_back() {
    let mut house = House::with_pods(2, limited(20)).await;
    all_know(&house, 2).await;
    let agent = register(&house, 1).await;
    for pod in 0..2 {
        assert_eq!(quota(&house, pod, &agent).await, r#""credential";q=20;w=2"#);
        let (answered, _) = until_refused(async || call(&house, pod, HERE, Some(&agent.key)).await).await;
        // The first one was counted above; ten a second come back meanwhile.
        assert!((19..38).contains(&answered), "pod {pod}: {answered}");
    }
    house.pods.pop().unwrap().drain().await;
    let rows: i64 = sqlx::query_scalar("select count(*) from live_pod").fetch_one(&house.db).await.unwrap();
    assert_eq!(rows, 1, "it said that it leaves");
    all_know(&house, 1).await;
    assert_eq!(quota(&house, 0, &agent).await, r#""credential";q=40;w=2"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_that_died_is_counted_for_ten_seconds_and_forgotten_after_a_minute() {
    let house = House::with_pods(1, limited(20)).await;
    for (number, age) in [(1, "8 hours"), (2, "11 seconds"), (3, "1 second")] {
        let dead = "insert into live_pod values ($1, clock_timestamp() - $2::interval)";
        let id = uuid::Uuid::from_u128(number);
        sqlx::query(dead).bind(id).bind(age).execute(&house.db).await.unwrap();
    }
    all_know(&house, 2).await;
    let forgotten = "select not exists (select from live_pod where pod_id = $1)";
    let is_forgotten = async |number| -> bool {
        let id = uuid::Uuid::from_u128(number);
        sqlx::query_scalar(forgotten).bind(id).fetch_one(&house.db).await.unwrap()
    };
    assert!(is_forgotten(1).await);
    assert!(!is_forgotten(2).await);
    sqlx::query("update live_pod set seen_at = seen_at - interval '9 seconds' where pod_id = $1")
        .bind(uuid::Uuid::from_u128(3))
        .execute(&house.db)
        .await
        .unwrap();
    all_know(&house, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_allows_a_fifth_however_many_there_are() {
    let house = House::with_pods(1, limited(20)).await;
    pretend_pods(&house, 40).await;
    let agent = register(&house, 1).await;
    assert_eq!(quota(&house, 0, &agent).await, r#""credential";q=8;w=2"#);
}
