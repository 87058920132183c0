//! Registrations per hour and client network, counted in Postgres: exact across pods.

use sqlx::Row;
use uuid::Uuid;

use crate::call::{Call, Error, Result, lock};

/// Counts this registration, or refuses it with the seconds until one falls out of the hour.
pub(super) async fn count(call: &mut Call<'_>, channel: Option<&str>) -> Result<()> {
    let network = call.caller.network;
    let limit = call.terms.register_limit;
    if limit > 0 {
        lock::hold(call.db.get().await?, "registration", &[network.to_string().as_bytes()]).await?;
        let row = sqlx::query(
            "-- mailbox.registrations_of_network
             select count(*), ceil(extract(epoch from min(registered_at) + interval '1 hour' - clock_timestamp()))::bigint
             from (select registered_at from registration
                where network = $1::text::cidr and registered_at > clock_timestamp() - interval '1 hour'
                order by registered_at desc limit $2) latest",
        )
        .bind(network.to_string())
        .bind(i64::from(limit))
        .fetch_one(call.db.get().await?)
        .await?;
        let (count, wait): (i64, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
        if count >= i64::from(limit) {
            let retry_after = wait.unwrap_or(1).max(1).unsigned_abs();
            return Err(Error::RateLimited { what: "registrations from your network", retry_after });
        }
    }
    sqlx::query(
        "-- mailbox.count_registration
         insert into registration (network, registration_id, org_id, channel) values ($1::text::cidr, $2, $3, $4)",
    )
    .bind(network.to_string())
    .bind(Uuid::now_v7())
    .bind(call.caller.org.org_id)
    .bind(channel)
    .execute(call.db.get().await?)
    .await?;
    Ok(())
}
