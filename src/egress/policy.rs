//! Which hosts an organization lets its agents' webhooks reach.

use sqlx::PgConnection;
use uuid::Uuid;

use super::{Refusal, Target};
use crate::error::Result;

/// An organization's allowlist, as it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy(Option<Vec<String>>);

impl Policy {
    /// A list of hosts; `None` allows every public host, an empty list none.
    pub fn of(hosts: Option<Vec<String>>) -> Policy {
        Policy(hosts)
    }

    /// The organization's.
    ///
    /// # Errors
    /// When the database cannot tell.
    pub async fn read(db: &mut PgConnection, org_id: Uuid) -> Result<Policy> {
        let hosts =
            sqlx::query_scalar("-- egress.policy\n select hosts from egress_policy where org_id = $1")
                .bind(org_id)
                .fetch_optional(db)
                .await?;
        Ok(Policy(hosts))
    }

    /// Whether a request may go there.
    ///
    /// # Errors
    /// [`Refusal::NotAllowed`].
    pub fn judge(&self, target: &Target) -> std::result::Result<(), Refusal> {
        let host = target.host();
        let covers = |allowed: &String| match allowed.strip_prefix("*.") {
            Some(above) => host.strip_suffix(above).is_some_and(|rest| rest.ends_with('.')),
            None => *allowed == host,
        };
        match &self.0 {
            None => Ok(()),
            Some(hosts) if hosts.iter().any(covers) => Ok(()),
            Some(_) => Err(Refusal::NotAllowed),
        }
    }
}

/// Whether a list may hold it: a lower-case host, or `*.` and one.
pub fn is_host(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    let parts = || name.split('.');
    name.len() <= 253 && parts().all(|part| !part.is_empty() && part.chars().all(is_plain))
}

/// Sets an organization's list: hosts, or `*.example.com` for all below one; `None` takes it away.
///
/// # Errors
/// When the database cannot.
pub async fn set_policy(db: &mut PgConnection, org_id: Uuid, hosts: Option<&[String]>) -> Result<()> {
    let Some(hosts) = hosts else {
        sqlx::query("-- egress.clear_policy\n delete from egress_policy where org_id = $1")
            .bind(org_id)
            .execute(db)
            .await?;
        return Ok(());
    };
    sqlx::query(
        "-- egress.set_policy
         insert into egress_policy (org_id, hosts) values ($1, $2)
         on conflict (org_id) do update set hosts = excluded.hosts, set_at = clock_timestamp()",
    )
    .bind(org_id)
    .bind(hosts)
    .execute(db)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_hosts_and_nothing_else() {
        for host in ["example.com", "*.example.com", "127.0.0.1", "xn--bcher-kva.example"] {
            assert!(is_host(host), "{host}");
        }
        for text in
            ["", "*", "*.", "a..b", "https://example.com", "example.com:443", "EXAMPLE.com", "a b", "*.*.com"]
        {
            assert!(!is_host(text), "{text}");
        }
    }

    #[test]
    fn a_list_allows_its_hosts_and_what_is_below_a_star() {
        let allows = |list: Option<&[&str]>, url: &str| {
            let hosts = list.map(|list| list.iter().map(|host| (*host).to_owned()).collect());
            Policy::of(hosts).judge(&Target::parse(url, false).unwrap()).is_ok()
        };
        let list: Option<&[&str]> = Some(&["a.example.com", "*.b.example.com"]);
        assert!(allows(None, "https://anything.example.org/"));
        assert!(!allows(Some(&[]), "https://a.example.com/"));
        assert!(allows(list, "https://A.example.com./x"));
        assert!(allows(list, "https://x.y.b.example.com/"));
        for url in ["https://b.example.com/", "https://xb.example.com/", "https://xa.example.com/"] {
            assert!(!allows(list, url), "{url}");
        }
    }
}
