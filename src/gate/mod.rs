//! Who may call: credentials to [`Caller`], in two phases.
//!
//! The headers are judged before the body is read ([`Gate::greet`]); a key that came as
//! an argument is judged once the arguments are known ([`Gate::admit`]).

mod lookup;
pub(crate) mod network;
mod presented;
mod remembered;
mod session;

use std::sync::Arc;

use ipnet::IpNet;
use sqlx::PgPool;

pub use presented::Presented;

use crate::call::caller::{BAD_AGENT_KEY, NO_AGENT_KEY, NO_OWNER_KEY};
use crate::call::credential::{Kind, Secret};
use crate::call::ticket::Tickets;
use crate::call::turns::Turns;
use crate::call::{Access, AgentSession, Caller, Error, Organization, OwnerSession, Result};
use crate::wakes::Wakes;
use lookup::Lookup;
use session::Session;

/// Judges credentials. One per pod; cheap to clone.
#[derive(Clone)]
pub struct Gate(Arc<Lookup>);

/// A caller as far as the headers tell.
#[derive(Clone)]
pub struct Visitor {
    org: Option<Organization>,
    agent: Option<Arc<AgentSession>>,
    owner: Option<Arc<OwnerSession>>,
    presented: Presented,
    network: IpNet,
}

impl Gate {
    /// A gate over the credentials of this database.
    pub fn new(pool: PgPool, turns: Turns, wakes: Wakes, tickets: Tickets) -> Gate {
        Gate(Arc::new(Lookup::new(pool, turns, wakes, tickets)))
    }

    /// Phase one: judges the credentials in the headers, and the organization of the path.
    ///
    /// # Errors
    /// `unauthorized` for a credential that does not stand or two that differ; `forbidden`
    /// for one of the wrong kind; `wrong_organization`. An organization that does not exist
    /// is no error yet: a key among the arguments may still come, and then the answer must
    /// not tell whether it exists (see [`Visitor::organization`]).
    pub async fn greet(&self, presented: Presented, org: Option<&str>, network: IpNet) -> Result<Visitor> {
        let mut visitor = Visitor { org: None, agent: None, owner: None, presented, network };
        if let Some(ticket) = visitor.presented.ticket()? {
            let session = self.0.holder(ticket).await?.ok_or(Error::Unauthorized(BAD_TICKET))?;
            visitor.take(session)?;
        }
        if let Some(key) = visitor.presented.agent_key()? {
            visitor.take(self.find(&key, Kind::Agent, BAD_AGENT_KEY).await?)?;
        }
        if let Some(key) = visitor.presented.owner_key.clone() {
            visitor.take(self.find(&key, Kind::Owner, BAD_OWNER_KEY).await?)?;
        }
        match (&visitor.org, org) {
            (Some(own), Some(named)) if &*own.slug != named => return Err(Error::WrongOrganization),
            (Some(_), _) => {}
            (None, named) => {
                visitor.org = self.0.organization(named.unwrap_or(Organization::DEFAULT)).await?
            }
        }
        Ok(visitor)
    }

    /// Phase two: judges the key that came as an argument, if one did.
    ///
    /// # Errors
    /// `unauthorized` for one that does not stand or differs from the header;
    /// `forbidden` for one of the wrong kind; `wrong_organization`.
    pub async fn admit(
        &self,
        mut visitor: Visitor,
        is_org_named: bool,
        access: Access,
        argument: Option<&str>,
    ) -> Result<Caller> {
        let Some(key) = argument else { return visitor.into_caller(access) };
        let (header, kind, bad) = match access {
            Access::Agent => (visitor.presented.agent_key()?, Kind::Agent, BAD_AGENT_KEY),
            Access::Anyone | Access::Owner => {
                (visitor.presented.owner_key.clone(), Kind::Owner, BAD_OWNER_KEY)
            }
        };
        match header {
            Some(header) if header != key => return Err(Error::Unauthorized(DIFFERENT_KEYS)),
            Some(_) => {}
            None => {
                let session = self.find(key, kind, bad).await?;
                if is_org_named && visitor.org.as_ref().map(|org| org.org_id) != Some(session.org.org_id) {
                    return Err(Error::WrongOrganization);
                }
                visitor.take(session)?;
            }
        }
        visitor.into_caller(access)
    }

    async fn find(&self, key: &str, kind: Kind, bad: &'static str) -> Result<Session> {
        let (_, secret) = Secret::parse(key).ok_or(Error::Unauthorized(bad))?;
        let session = self.0.session(secret.hash()).await?.ok_or(Error::Unauthorized(bad))?;
        match (kind, session.agent.is_some()) {
            (Kind::Agent, false) => Err(Error::Forbidden(NOT_AN_AGENT_KEY)),
            (Kind::Owner, true) => Err(Error::Forbidden(NOT_AN_OWNER_KEY)),
            _ => Ok(session),
        }
    }
}

impl Visitor {
    /// Whether the headers carried a credential that stands.
    pub fn is_known(&self) -> bool {
        self.agent.is_some() || self.owner.is_some()
    }

    /// The organization, for requests that call no tool.
    ///
    /// # Errors
    /// `not_found` when the path names one that does not exist.
    pub fn organization(&self) -> Result<&Organization> {
        self.org.as_ref().ok_or(Error::NotFound("organization"))
    }

    /// Takes a session; the first one decides the organization, and others must agree.
    fn take(&mut self, session: Session) -> Result<()> {
        if self.is_known() && self.org.as_ref().is_some_and(|org| org.org_id != session.org.org_id) {
            return Err(Error::WrongOrganization);
        }
        self.org = Some(session.org);
        self.agent = session.agent.or(self.agent.take());
        self.owner = session.owner.or(self.owner.take());
        Ok(())
    }

    /// An organization that does not exist is told only to those who need no key there.
    fn into_caller(self, access: Access) -> Result<Caller> {
        let org = self.org.ok_or(match access {
            Access::Anyone => Error::NotFound("organization"),
            Access::Agent => Error::Unauthorized(NO_AGENT_KEY),
            Access::Owner => Error::Unauthorized(NO_OWNER_KEY),
        })?;
        Ok(Caller { org, agent: self.agent, owner: self.owner, network: self.network })
    }
}

const BAD_OWNER_KEY: &str =
    "This owner key does not stand: mistyped or never issued. Send the owner_key that register returned.";
const DIFFERENT_KEYS: &str = "Two different keys came with this call. Send one of them.";
const BAD_TICKET: &str = "This ticket does not stand: altered, older than a minute, or of a key that was revoked. Get a new one from POST /api/v1/inbox/stream-ticket and open the stream again with since.";
const NOT_AN_AGENT_KEY: &str = "This is an owner key. Send the agent's api_key here.";
const NOT_AN_OWNER_KEY: &str = "This is an agent key. Send the owner_key here.";
