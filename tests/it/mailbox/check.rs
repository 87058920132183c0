//! `mailbox_check` and the summary: a page after a cursor, honest counts, and nothing consumed.

use reqwest::Method;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::{bodies, ids, mail, members, number, owned, settled, summary, tamper, with_caps};
use crate::house::{House, send};

#[tokio::test]
async fn pages_by_cursor_cover_everything_once() {
    let house = with_caps(1, 0, 0).await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    let mut sent = Vec::new();
    for n in 0..11 {
        sent.push(send(&house, &ada, &bob, &format!("m{n}")).await);
    }
    let first = house.ok(&bob, "mailbox_check", json!({ "since": 1, "limit": 4 })).await;
    let fields = "claimed consumer_recipe messages next_cursor next_since pending retry_after unacked wait_applied waited_ms";
    assert_eq!(members(&first).join(" "), fields);
    assert_eq!((&first["next_since"], &first["next_cursor"]), (&json!(5), &json!(5)));
    let (mut since, mut seen) = (first["next_since"].clone(), ids(&first["messages"]));
    loop {
        let page = house.ok(&bob, "mailbox_check", json!({ "since": since, "limit": 4 })).await;
        if ids(&page["messages"]).is_empty() {
            assert_eq!(page["next_since"], since);
            break;
        }
        seen.extend(ids(&page["messages"]));
        since = page["next_since"].clone();
    }
    assert_eq!(seen, sent);
}

#[tokio::test]
async fn a_page_is_bounded_by_bytes_and_stops_before_the_message_that_does_not_fit() {
    let house = with_caps(1, 0, 0).await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    // The widest there is: six bytes of JSON for each of 8,000 characters, and 16 KB of parts.
    let wide = json!({ "recipient_agent_id": bob.id, "body": "\u{1}".repeat(8000), "parts": [{ "text": "x".repeat(16_000) }] });
    house.ok(&ada, "mailbox_send", wide).await;
    for _ in 0..9 {
        send(&house, &ada, &bob, &"\u{1}".repeat(2000)).await;
    }
    let (mut since, mut sizes, mut seen) = (json!(1), Vec::new(), 0);
    while seen < 10 {
        let page = house.ok(&bob, "mailbox_check", json!({ "since": since, "limit": 100 })).await;
        let count = ids(&page["messages"]).len();
        assert!(count == 1 || page.to_string().len() <= 61_440, "{count} in {}", page.to_string().len());
        sizes.push(count);
        seen += count;
        since = page["next_since"].clone();
    }
    assert_eq!(sizes, [1, 4, 4, 1]);
}

#[tokio::test]
async fn a_cursor_ahead_of_the_head_is_answered_at_once_with_the_head() {
    let house = House::open().await;
    let bob = settled(&house).await;
    let ahead = house.ok(&bob, "mailbox_check", json!({ "since": 99, "wait": 20 })).await;
    assert_eq!(
        (&ahead["cursor_ahead"], &ahead["next_since"], &ahead["next_cursor"]),
        (&json!(true), &json!(1), &json!(1))
    );
    assert_eq!((&ahead["waited_ms"], &ahead["messages"]), (&json!(0), &json!([])));
    let at_head = house.ok(&bob, "mailbox_check", json!({ "since": 1 })).await;
    assert!(at_head.get("cursor_ahead").is_none(), "{at_head}");
}

#[tokio::test]
async fn reading_consumes_nothing() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, settled(&house).await);
    let id = send(&house, &ada, &bob, "mail").await;
    let before = (mail(&house, &bob).await, summary(&house, &bob).await["pending"].clone());
    for _ in 0..2 {
        house.get(0, &format!("/api/v1/mailbox/messages/{id}"), Some(&bob.key)).await;
        house.get(0, "/api/v1/mailbox/messages?since=0&limit=5", Some(&bob.key)).await;
    }
    assert_eq!((mail(&house, &bob).await, summary(&house, &bob).await["pending"].clone()), before);
    house.ok(&bob, "mailbox_claim", json!({})).await;
    let claimed = mail(&house, &bob).await;
    assert_eq!((&claimed[0]["state"], mail(&house, &bob).await), (&json!("claimed"), claimed.clone()));
}

#[tokio::test]
async fn the_counts_tell_pending_claimed_and_unacked_apart() {
    let house = House::open().await;
    let (ada, bob) = (house.register().await, house.register().await);
    let fields = "acked_total claimed consumer_recipe last_polled_at last_seq monitored oldest_pending_at pending unacked";
    let fresh = summary(&house, &bob).await;
    assert_eq!(members(&fresh).join(" "), fields);
    assert!(fresh["last_polled_at"].is_null() && fresh["oldest_pending_at"].is_string(), "{fresh}");
    for asked in [true, true, false] {
        let arguments = json!({ "recipient_agent_id": bob.id, "body": "hi", "ack_requested": asked });
        house.ok(&ada, "mailbox_send", arguments).await;
    }
    let claimed = house.ok(&bob, "mailbox_claim", json!({ "limit": 2 })).await;
    house.ok(&bob, "mailbox_ack", json!({ "message_ids": [ids(&claimed["messages"])[1]] })).await;
    let counts = house.ok(&bob, "mailbox_check", json!({})).await;
    assert_eq!(
        (&counts["pending"], &counts["claimed"], &counts["unacked"]),
        (&json!(2), &json!(1), &json!(1))
    );
    let counted = summary(&house, &bob).await;
    assert_eq!(
        (&counted["pending"], &counted["claimed"], &counted["unacked"]),
        (&json!(2), &json!(1), &json!(1))
    );
    assert_eq!((&counted["acked_total"], &counted["last_seq"]), (&json!(1), &json!(4)));
    assert_eq!(counted["oldest_pending_at"], counts["messages"][2]["created_at"]);
    let states: Vec<&Value> = counts["messages"].as_array().unwrap().iter().map(|m| &m["state"]).collect();
    assert_eq!(states, ["claimed", "acked", "pending", "pending"]);
    assert!(
        counts["messages"][1]["acked_at"].is_string() && counts["messages"][1]["lease_expires_at"].is_null()
    );
}

/// Counts writes to `poll`, whoever does them.
const COUNT_POLLS: &str = "create table stamps (agent_id uuid);
    create function note_stamp() returns trigger language plpgsql as $$
        begin insert into stamps values (new.agent_id); return new; end $$;
    create trigger stamped after insert or update on poll for each row execute function note_stamp();";

#[tokio::test]
async fn a_check_stamps_exactly_one_poll_and_the_summary_none() {
    let house = House::open().await;
    sqlx::raw_sql(COUNT_POLLS).execute(&house.db).await.unwrap();
    let (ada, bob) = (house.register().await, house.register().await);
    let stamps = async || {
        house.write_polls_down().await;
        number(&house, &bob, "select count(*) from stamps where agent_id = $1").await
    };
    let id = send(&house, &ada, &bob, "mail").await;
    summary(&house, &bob).await;
    house.get(0, &format!("/api/v1/mailbox/messages/{id}"), Some(&bob.key)).await;
    house.ok(&bob, "who_am_i", json!({})).await;
    assert_eq!(stamps().await, 0);
    house.ok(&bob, "mailbox_check", json!({})).await;
    assert_eq!(stamps().await, 1);
    house.get(0, "/api/v1/mailbox/messages", Some(&bob.key)).await;
    assert_eq!(stamps().await, 2);
    let held = house.ok(&bob, "mailbox_check", json!({ "since": 2, "wait": 1 })).await;
    assert!(held["waited_ms"].as_u64() >= Some(1000), "{held}");
    assert_eq!(stamps().await, 3, "held");
    let held = house.call(0, &bob, "mailbox_check", json!({ "since": 2, "wait": 20 }));
    let (held, _) = tokio::join!(held, async {
        crate::house::until("it is held", async || stamps().await == 4).await;
        send(&house, &ada, &bob, "wakes it").await;
    });
    assert_eq!(bodies(&held.body["messages"]), ["wakes it"]);
    assert_eq!(stamps().await, 4, "held and woken");
    house.ok(&bob, "mailbox_claim", json!({})).await;
    assert_eq!(stamps().await, 5, "a claim is a poll");
}

#[tokio::test]
async fn a_poll_counts_at_whichever_pod_it_is_the_first() {
    let house = House::with_pods(2, crate::house::settings()).await;
    let bob = house.register().await;
    let mut polled = crate::house::last_poll(&house, &bob).await;
    for pod in [0, 1, 1, 0] {
        house.call(pod, &bob, "mailbox_check", json!({})).await;
        let before = std::mem::replace(&mut polled, crate::house::last_poll(&house, &bob).await);
        assert!(polled > before, "at pod {pod}");
    }
}

#[tokio::test]
async fn a_last_poll_is_shown_at_once_at_the_pod_that_saw_it() {
    let house = House::open().await;
    let bob = house.register().await;
    let read = |shown: &Value| OffsetDateTime::parse(shown.as_str().unwrap(), &Rfc3339).unwrap();
    for _ in 0..3 {
        let before: OffsetDateTime =
            sqlx::query_scalar("select date_trunc('milliseconds', clock_timestamp())")
                .fetch_one(&house.db)
                .await
                .unwrap();
        house.ok(&bob, "mailbox_check", json!({})).await;
        let counts = summary(&house, &bob).await;
        let listed = owned(&house, 0, &bob.owner_key, Method::GET, "/agents", Value::Null).await.body;
        for shown in [&counts["last_polled_at"], &listed["agents"][0]["last_polled_at"]] {
            assert!(read(shown) >= before, "{shown}, polled after {before}");
        }
    }
}

#[tokio::test]
async fn polls_in_three_distinct_hours_make_a_mailbox_monitored() {
    let house = House::open().await;
    let bob = house.register().await;
    let who = async || {
        house.write_polls_down().await;
        house.ok(&bob, "who_am_i", json!({})).await["monitored"].clone()
    };
    for (hours_ago, monitored) in [(0, false), (0, false), (5, false), (20, true)] {
        // The past moves back, and one more poll is of now.
        let shift = format!("update poll set polled_hour = polled_hour - {hours_ago} where agent_id = $1");
        if hours_ago > 0 {
            tamper(&house, &bob, &shift).await;
        }
        house.ok(&bob, "mailbox_check", json!({})).await;
        let expected = json!(monitored && hours_ago < 19);
        assert_eq!(who().await, expected, "{hours_ago}");
    }
    tamper(&house, &bob, "update poll set polled_hour = polled_hour - 3 where agent_id = $1").await;
    house.ok(&bob, "mailbox_check", json!({})).await;
    assert_eq!((who().await, summary(&house, &bob).await["monitored"].clone()), (json!(true), json!(true)));
    tamper(&house, &bob, "update poll set polled_hour = polled_hour - 100 where agent_id = $1").await;
    assert_eq!(who().await, false);
}

#[tokio::test]
async fn whole_numbers_come_in_any_spelling_and_ranges_are_judged() {
    let house = House::open().await;
    let bob = settled(&house).await;
    for since in [json!(1), json!("1"), json!(1.0), json!("1e0"), json!(null)] {
        house.ok(&bob, "mailbox_check", json!({ "since": since, "limit": "5" })).await;
    }
    let exponent = house.http().post(format!("{}/api/v1/tools/mailbox_check", house.url(0)));
    let exponent = exponent.header("content-type", "application/json").body(r#"{"since":1e0,"limit":5e0}"#);
    assert_eq!(house.send(exponent, Some(&bob.key)).await.status, 200);
    for (name, value) in [
        ("since", json!(-1)),
        ("since", json!(1.5)),
        ("since", json!(true)),
        ("since", json!("abc")),
        ("since", json!("")),
        ("limit", json!(0)),
        ("limit", json!(101)),
        ("wait", json!(1.5)),
        ("wait", json!("soon")),
    ] {
        let refused = house.refused(&bob, "mailbox_check", json!({ name: value }), "validation_error").await;
        assert_eq!(
            (&refused["status"], &refused["details"]["field"]),
            (&json!(422), &json!(name)),
            "{value}"
        );
    }
    let unknown = house.refused(&bob, "mailbox_check", json!({ "after": 1 }), "unknown_field").await;
    assert_eq!(unknown["suggestion"], "since");
}
