//! Tells the other pods: the first news at once, then at most every 2 ms.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{News, Topic, Wakes};

pub(super) const CHANNEL: &str = "waypost_news";

/// More news gathers while this passes; one commit then tells all of it.
const HOLD_OFF: Duration = Duration::from_millis(2);
/// A notification that takes longer is given up, and its news put back.
const PATIENCE: Duration = Duration::from_secs(2);
const BACK_OFF: Duration = Duration::from_millis(200);
/// A line is at most 84 bytes; a payload must stay under 8,000.
const LINES: usize = 90;

pub(super) async fn run(wakes: Wakes, options: PgConnectOptions, stop: CancellationToken) {
    // What is told is stored already: nobody need wait for the disk to be told.
    let options = options.options([("synchronous_commit", "off")]);
    let mut db = None;
    loop {
        tokio::select! {
            () = wakes.0.told.notified() => {}
            () = stop.cancelled() => return,
        }
        let news: Vec<News> = wakes.untold().drain().collect();
        if let Err(error) = tell(&mut db, &options, &news).await {
            tracing::warn!(%error, "could not tell the other pods; trying again");
            db = None;
            put_back(&wakes, news);
            sleep(BACK_OFF).await;
        }
        sleep(HOLD_OFF).await;
    }
}

async fn tell(db: &mut Option<PgConnection>, options: &PgConnectOptions, news: &[News]) -> sqlx::Result<()> {
    if news.is_empty() {
        return Ok(());
    }
    let telling = async {
        let open = match db.take() {
            Some(open) => open,
            None => PgConnection::connect_with(options).await?,
        };
        let open = db.insert(open);
        sqlx::query("-- wakes.ring\n select pg_notify($1, payload) from unnest($2::text[]) payload")
            .bind(CHANNEL)
            .bind(payloads(news))
            .execute(open)
            .await
    };
    timeout(PATIENCE, telling).await.map_err(|_| sqlx::Error::PoolTimedOut)??;
    Ok(())
}

fn put_back(wakes: &Wakes, news: Vec<News>) {
    let mut untold = wakes.untold();
    for (topic, at) in news {
        let newest = untold.entry(topic).or_insert(at);
        *newest = (*newest).max(at);
    }
    drop(untold);
    wakes.0.told.notify_one();
}

fn payloads(news: &[News]) -> Vec<String> {
    news.chunks(LINES).map(|some| some.iter().map(line).collect::<Vec<_>>().join("\n")).collect()
}

fn line((topic, at): &News) -> String {
    match topic {
        Topic::Mailbox { org_id, agent_id } => format!("m{} {} {at:x}", org_id.simple(), agent_id.simple()),
        Topic::Credential(credential_id) => format!("c{}", credential_id.simple()),
    }
}

/// Reads one line of a notification; `None` for what a newer pod may say.
pub(super) fn parse(line: &str) -> Option<News> {
    let (kind, rest) = line.split_at_checked(1)?;
    let mut words = rest.split(' ');
    match kind {
        "m" => {
            let org_id = words.next()?.parse().ok()?;
            let agent_id = words.next()?.parse().ok()?;
            Some((Topic::Mailbox { org_id, agent_id }, i64::from_str_radix(words.next()?, 16).ok()?))
        }
        "c" => Some((Topic::Credential(words.next()?.parse().ok()?), 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn news_is_read_as_it_was_told_and_payloads_stay_small() {
        let mailbox = || Topic::Mailbox { org_id: Uuid::now_v7(), agent_id: Uuid::now_v7() };
        let mut news: Vec<News> = (0..200).map(|seq| (mailbox(), i64::MAX - seq)).collect();
        news.push((Topic::Credential(Uuid::now_v7()), 1));
        let payloads = payloads(&news);
        assert!(payloads.iter().all(|payload| payload.len() < 8_000));
        let read: Vec<News> = payloads.iter().flat_map(|payload| payload.lines()).filter_map(parse).collect();
        assert_eq!(read, news);
        assert_eq!(parse("x of the future"), None);
        assert_eq!(parse(""), None);
    }
}
