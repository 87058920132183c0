//! Who may call: credentials to [`Caller`], in two phases.
//!
//! The headers are judged before the body is read ([`Gate::greet`]); a key that came as
//! an argument is judged once the arguments are known ([`Gate::admit`]).

mod limits;
mod lookup;
mod meter;
pub(crate) mod network;
pub mod pods;
mod presented;
mod remembered;
mod session;

use std::sync::Arc;

use sqlx::PgPool;

pub use limits::{RateLimits, Standing, Tally};
pub use presented::Presented;

use crate::call::caller::{BAD_AGENT_KEY, NO_AGENT_KEY, NO_OWNER_KEY};
use crate::call::credential::{Kind, Secret};
use crate::call::ticket::Tickets;
use crate::call::turns::Turns;
use crate::call::{Access, AgentSession, Caller, Error, Organization, OwnerSession, Result};
use crate::trace::Trace;
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
    tally: Tally,
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
    /// for one of the wrong kind; `wrong_organization`; `rate_limited`. An organization that does not exist
    /// is no error yet: a key among the arguments may still come, and then the answer must
    /// not tell whether it exists (see [`Visitor::organization`]).
    pub async fn greet(&self, presented: Presented, org: Option<&str>, tally: Tally) -> Result<Visitor> {
        let mut visitor = Visitor { org: None, agent: None, owner: None, presented, tally };
        if let Some(ticket) = visitor.presented.ticket()? {
            let session = guessing(&visitor.tally, Box::pin(self.0.holder(ticket))).await?;
            let session = session.ok_or(Error::Unauthorized(BAD_TICKET))?;
            visitor.tally.count_on_credential(session.credential_id())?;
            visitor.take(session)?;
        }
        if let Some(key) = visitor.presented.agent_key()? {
            visitor.take(self.find(&key, Kind::Agent, BAD_AGENT_KEY, &visitor.tally).await?)?;
        }
        if let Some(key) = visitor.presented.owner_key.clone() {
            visitor.take(self.find(&key, Kind::Owner, BAD_OWNER_KEY, &visitor.tally).await?)?;
        }
        match (&visitor.org, org) {
            (Some(own), Some(named)) if &*own.slug != named => return Err(Error::WrongOrganization),
            (Some(_), _) => {}
            (None, named) => {
                visitor.org =
                    self.organization(named.unwrap_or(Organization::DEFAULT), &visitor.tally).await?
            }
        }
        Ok(visitor)
    }

    /// Phase two: judges the key that came as an argument, if one did.
    ///
    /// # Errors
    /// `unauthorized` for one that does not stand or differs from the header;
    /// `forbidden` for one of the wrong kind; `wrong_organization`; `rate_limited`, for strangers
    /// without a key, too.
    pub async fn admit(
        &self,
        mut visitor: Visitor,
        named: Option<&str>,
        access: Access,
        argument: Option<&str>,
    ) -> Result<Caller> {
        let Some(key) = argument else {
            visitor.tally.settle()?;
            return visitor.into_caller(access);
        };
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
                let session = self.find(key, kind, bad, &visitor.tally).await?;
                if named.is_some_and(|named| named != &*session.org.slug) {
                    return Err(Error::WrongOrganization);
                }
                visitor.take(session)?;
            }
        }
        visitor.into_caller(access)
    }

    async fn find(&self, key: &str, kind: Kind, bad: &'static str, tally: &Tally) -> Result<Session> {
        let Some((_, secret)) = Secret::parse(key) else {
            tally.count_on_network()?;
            return Err(Error::Unauthorized(bad));
        };
        let session = self.session(secret.hash(), tally).await?.ok_or(Error::Unauthorized(bad))?;
        tally.count_on_credential(session.credential_id())?;
        match (kind, session.agent.is_some()) {
            (Kind::Agent, false) => Err(Error::Forbidden(NOT_AN_AGENT_KEY)),
            (Kind::Owner, true) => Err(Error::Forbidden(NOT_AN_OWNER_KEY)),
            _ => Ok(session),
        }
    }

    /// A key that stood lately is counted before it is looked up again; any other may be a guess. Look-ups are
    /// boxed, here and below: they are rare, and every future around them would be as large.
    async fn session(&self, hash: [u8; 32], tally: &Tally) -> Result<Option<Session>> {
        let Some(known) = self.0.remembered(&hash) else {
            return guessing(tally, Box::pin(self.0.session(hash))).await;
        };
        tally.count_on_credential(known.credential_id)?;
        if known.session.is_some() {
            return Ok(known.session);
        }
        let session = Box::pin(self.0.session(hash)).await.inspect_err(|_| tally.waive())?;
        if session.is_none() {
            tally.count_on_network()?;
        }
        Ok(session)
    }

    /// The same for the name of an organization. One that may not be looked up is taken for one that does
    /// not exist: a key among the arguments may still come, and who has none is refused by [`Tally::settle`].
    async fn organization(&self, slug: &str, tally: &Tally) -> Result<Option<Organization>> {
        match self.0.existed(slug) {
            true => Box::pin(self.0.organization(slug)).await.inspect_err(|_| tally.waive()),
            false if !tally.may_guess() => Ok(None),
            false => guessing(tally, Box::pin(self.0.organization(slug))).await,
        }
    }
}

/// Looks up what may be a guess: it counts unless it finds something, or fails by our fault.
async fn guessing<T>(tally: &Tally, looking: impl Future<Output = Result<Option<T>>>) -> Result<Option<T>> {
    let guess = tally.guess()?;
    let found = looking.await;
    if !matches!(found, Ok(None)) {
        guess.was_none();
    }
    found.inspect_err(|_| tally.waive())
}

impl Visitor {
    /// The same in the trace that the request's body names, if it names one: it is closer to the caller than a header.
    pub fn in_trace(mut self, trace: Option<Trace>) -> Visitor {
        self.presented.trace = trace.or(self.presented.trace);
        self
    }

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
        let (network, trace) = (self.tally.network, self.presented.trace);
        Ok(Caller { org, agent: self.agent, owner: self.owner, network, trace })
    }
}

const BAD_OWNER_KEY: &str =
    "This owner key does not stand: mistyped or never issued. Send the owner_key that register returned.";
const DIFFERENT_KEYS: &str = "Two different keys came with this call. Send one of them.";
const BAD_TICKET: &str = "This ticket does not stand: altered, older than a minute, or of a key that was revoked. Get a new one from POST /api/v1/inbox/stream-ticket and open the stream again with since.";
const NOT_AN_AGENT_KEY: &str = "This is an owner key. Send the agent's api_key here.";
const NOT_AN_OWNER_KEY: &str = "This is an agent key. Send the owner_key here.";
