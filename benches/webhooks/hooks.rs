//! Webhooks, written straight into the database as active ones that have told of all there is.

use sqlx::PgConnection;
use uuid::Uuid;
use waypost::call::seal::Seal;

use crate::stage::agents::Agent;
use crate::stage::pod::SECRET_KEY;

/// Gives each agent a webhook at the URL in its place, instead of any that it has.
pub async fn give(db: &mut PgConnection, agents: &[Agent], urls: &[String]) {
    let org_id: Uuid = sqlx::query_scalar("-- hooks.org\n select org_id from agent limit 1")
        .fetch_one(&mut *db)
        .await
        .unwrap();
    let seal = Seal::new(&SECRET_KEY);
    let sealed = agents.iter().map(|agent| {
        let context = [*org_id.as_bytes(), *agent.id.as_bytes()].concat();
        seal.close(&context, &[b'0'; 64]).unwrap()
    });
    sqlx::query("-- hooks.clear\n delete from webhook").execute(&mut *db).await.unwrap();
    sqlx::query(
        "-- hooks.give
         with hooked as (
            update mailbox m set hooked = true
            from unnest($2::uuid[], $3::text[], $4::bytea[]) as w(agent_id, url, sealed)
            where m.org_id = $1 and m.agent_id = w.agent_id
            returning m.org_id, m.agent_id, m.last_seq, w.url, w.sealed
         )
         insert into webhook (org_id, agent_id, url, authority, sealed_secret, challenge, activation, state,
            announced_seq)
         select org_id, agent_id, url, split_part(url, '/', 3), sealed, 'a', gen_random_uuid(), 'active', last_seq
         from hooked",
    )
    .bind(org_id)
    .bind(agents.iter().map(|agent| agent.id).collect::<Vec<_>>())
    .bind(urls)
    .bind(sealed.collect::<Vec<_>>())
    .execute(&mut *db)
    .await
    .unwrap();
    sqlx::raw_sql("vacuum analyze").execute(db).await.unwrap();
}
