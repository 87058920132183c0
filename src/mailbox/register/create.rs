//! Makes an agent: its row, its mailbox with a first notice, its key, and an owner if it has none.

use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::call::credential::Secret;
use crate::call::{Caps, Error, Result};
use crate::inbox::{self, Letter, Posting, Verdict};
use crate::mailbox::names;
use crate::mailbox::owned::{mint_agent_key, mint_owner_key};

/// An agent to be made.
#[derive(Debug)]
pub struct NewAgent {
    /// Its organization.
    pub org_id: Uuid,
    /// Its owner; `None` makes one.
    pub owner_id: Option<Uuid>,
    /// Its name, judged; `None` makes one.
    pub name: Option<String>,
    /// How people reach a new owner.
    pub contact_uri: Option<String>,
    /// What it declares.
    pub profile: Value,
}

/// An agent that was made, with its keys in clear: the only time they are known.
pub struct Created {
    /// Its id.
    pub agent_id: Uuid,
    /// Its name.
    pub name: String,
    /// Its key.
    pub api_key: Secret,
    /// Its owner.
    pub owner_id: Uuid,
    /// The owner's key, when the owner is new.
    pub owner_key: Option<Secret>,
    /// Notices in its mailbox.
    pub notices: usize,
}

/// Makes an agent, in the caller's transaction.
pub async fn create_agent(db: &mut PgConnection, caps: Caps, new: NewAgent) -> Result<Created> {
    let (owner_id, owner_key) = match new.owner_id {
        Some(owner_id) => (owner_id, None),
        None => {
            let (owner_id, key) = create_owner(db, new.org_id, new.contact_uri.as_deref()).await?;
            (owner_id, Some(key))
        }
    };
    let name = match new.name {
        Some(name) => name,
        None => unused_name(db, new.org_id).await?,
    };
    let agent_id = Uuid::now_v7();
    store_agent(db, new.org_id, owner_id, agent_id, &name, &new.profile).await?;
    let (_, api_key) = mint_agent_key(db, new.org_id, owner_id, agent_id).await?;
    let notices = welcome(db, caps, new.org_id, agent_id).await?;
    Ok(Created { agent_id, name, api_key, owner_id, owner_key, notices })
}

async fn create_owner(
    db: &mut PgConnection,
    org_id: Uuid,
    contact_uri: Option<&str>,
) -> Result<(Uuid, Secret)> {
    let owner_id = Uuid::now_v7();
    sqlx::query(
        "-- mailbox.create_owner\n insert into owner (org_id, owner_id, contact_uri) values ($1, $2, $3)",
    )
    .bind(org_id)
    .bind(owner_id)
    .bind(contact_uri)
    .execute(&mut *db)
    .await?;
    Ok((owner_id, mint_owner_key(db, org_id, owner_id).await?))
}

/// A made name that nobody has yet.
async fn unused_name(db: &mut PgConnection, org_id: Uuid) -> Result<String> {
    const TRIES: usize = 8;
    for _ in 0..TRIES {
        let [a, b, c, d, ..] = *Uuid::new_v4().as_bytes();
        let name = names::generated([a, b, c, d]);
        let is_taken: bool = sqlx::query_scalar(
            "-- mailbox.is_name_taken
             select exists (select from agent where org_id = $1 and name_folded = $2)",
        )
        .bind(org_id)
        .bind(names::fold(&name))
        .fetch_one(&mut *db)
        .await?;
        if !is_taken {
            return Ok(name);
        }
    }
    Err(Error::internal("no unused name was found"))
}

async fn store_agent(
    db: &mut PgConnection,
    org_id: Uuid,
    owner_id: Uuid,
    agent_id: Uuid,
    name: &str,
    profile: &Value,
) -> Result<()> {
    sqlx::query(
        "-- mailbox.store_agent
         with stored as (
            insert into agent (org_id, agent_id, owner_id, name, name_folded, profile)
            values ($1, $2, $3, $4, $5, $6::json) returning org_id, agent_id)
         insert into mailbox (org_id, agent_id) select org_id, agent_id from stored",
    )
    .bind(org_id)
    .bind(agent_id)
    .bind(owner_id)
    .bind(name)
    .bind(names::fold(name))
    .bind(profile.to_string())
    .execute(db)
    .await?;
    Ok(())
}

const WELCOME: &str = "Welcome. This is your mailbox. Read it with mailbox_check (add wait to be held until mail arrives), \
lease mail to work on with mailbox_claim, and mark it done with mailbox_ack; reply_text of mailbox_ack answers the sender. \
Send mail with mailbox_send.";

async fn welcome(db: &mut PgConnection, caps: Caps, org_id: Uuid, agent_id: Uuid) -> Result<usize> {
    let notice = Letter::notice(agent_id, WELCOME);
    let posting = Posting {
        org_id,
        letters: vec![notice],
        acks: None,
        claim: None,
        only_with_ack: false,
        key: None,
        trace: None,
    };
    match inbox::post_alone(db, caps, posting).await? {
        Verdict::Posted(posted) => Ok(posted.delivered.len()),
        _ => Err(Error::internal("a new mailbox took no notice")),
    }
}
