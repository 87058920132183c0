//! Once a second, one query: which of the waited-for things moved without our hearing of it?

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, Row};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{News, Topic, Wakes};

const EVERY: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) async fn run(wakes: Wakes, options: PgConnectOptions, stop: CancellationToken) {
    let mut db = None;
    let mut tick = interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = wakes.0.sweep_now.notified() => {}
            () = stop.cancelled() => return,
        }
        let waited = wakes.0.bells.all();
        if waited.is_empty() {
            continue;
        }
        match timeout(PATIENCE, moved(&mut db, &options, &waited)).await {
            Ok(Ok(news)) => news.into_iter().for_each(|(topic, at)| wakes.hear(topic, at, "swept")),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the sweep failed; trying again in a second");
                db = None;
            }
            Err(_) => {
                tracing::warn!("the sweep was not answered in time; trying again in a second");
                db = None;
            }
        }
    }
}

async fn moved(
    db: &mut Option<PgConnection>,
    options: &PgConnectOptions,
    waited: &[News],
) -> sqlx::Result<Vec<News>> {
    let open = match db.take() {
        Some(open) => open,
        None => PgConnection::connect_with(options).await?,
    };
    let (mut orgs, mut agents, mut seen, mut credentials) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (topic, at) in waited {
        match topic {
            Topic::Mailbox { org_id, agent_id } => {
                orgs.push(*org_id);
                agents.push(*agent_id);
                seen.push(*at);
            }
            Topic::Credential(credential_id) => credentials.push(*credential_id),
        }
    }
    let rows = sqlx::query(
        "-- wakes.sweep
         select m.org_id, m.agent_id, m.last_seq
         from unnest($1::uuid[], $2::uuid[], $3::bigint[]) as w(org_id, agent_id, seen)
         join mailbox m using (org_id, agent_id) where m.last_seq > w.seen
         union all
         select null, w.credential_id, 1
         from unnest($4::uuid[]) as w(credential_id)
         where not exists (
             select from credential c where c.credential_id = w.credential_id and c.revoked_at is null)",
    )
    .bind(orgs)
    .bind(agents)
    .bind(seen)
    .bind(credentials)
    .fetch_all(db.insert(open))
    .await?;
    rows.iter()
        .map(|row| {
            let org_id: Option<Uuid> = row.try_get(0)?;
            let id = row.try_get(1)?;
            let topic = match org_id {
                Some(org_id) => Topic::Mailbox { org_id, agent_id: id },
                None => Topic::Credential(id),
            };
            Ok((topic, row.try_get(2)?))
        })
        .collect()
}
