//! The roles a process can take: serving, and the operator's chores.

use clap::{Subcommand, ValueEnum};

/// What this process does.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Role {
    /// Serve (what happens when no role is named)
    Serve,
    /// Bring the database's schema up to this version, then exit
    Migrate,
    /// Print openapi.yaml
    #[command(name = "openapi")]
    OpenApi,
    /// Work of the operator
    #[command(flatten)]
    Chore(Chore),
}

/// A chore of the operator. Each prints JSON.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum Chore {
    /// Organizations
    #[command(subcommand)]
    Org(OrgChore),
    /// Agents
    #[command(subcommand)]
    Agent(AgentChore),
    /// Agent keys
    #[command(subcommand)]
    Key(KeyChore),
}

/// Chores on organizations. Each prints JSON.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum OrgChore {
    /// Create an organization; prints org_id, slug and registration
    Create {
        /// Lower-case letters, digits and dashes, a letter first, at most 63
        slug: String,
        /// Whether agents may register by themselves
        #[arg(long, value_enum, default_value_t = Registration::Open)]
        registration: Registration,
    },
    /// Set where requests of an organization (webhooks) may go; prints what stands then
    #[command(group = clap::ArgGroup::new("hosts").required(true))]
    Egress {
        /// The organization's slug
        slug: String,
        /// A host, or *.example.com for all below one; may be said again
        #[arg(long, group = "hosts", value_name = "HOST")]
        allow: Vec<String>,
        /// No host at all
        #[arg(long, group = "hosts")]
        none: bool,
        /// Every public host, as long as nothing is set
        #[arg(long, group = "hosts")]
        any: bool,
    },
    /// List the organizations
    List,
}

/// Whether agents may register in an organization by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Registration {
    /// Anyone may register.
    Open,
    /// Only operators make agents.
    Closed,
}

/// Chores on agents. Each prints JSON.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum AgentChore {
    /// Create an agent; prints its keys, once
    Create {
        /// The organization's slug
        #[arg(long, value_name = "SLUG")]
        org: String,
        /// The agent's name; one is made when missing
        #[arg(long)]
        name: Option<String>,
    },
    /// List the agents of an organization
    List {
        /// The organization's slug
        #[arg(long, value_name = "SLUG")]
        org: String,
    },
}

/// Chores on agent keys. Each prints JSON.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum KeyChore {
    /// Revoke every key of an agent and print a fresh one, once
    Renew {
        /// The organization's slug
        #[arg(long, value_name = "SLUG")]
        org: String,
        /// The agent whose keys are renewed
        agent_id: String,
    },
    /// Revoke one key
    Revoke {
        /// The organization's slug
        #[arg(long, value_name = "SLUG")]
        org: String,
        /// The key to revoke
        key_id: String,
    },
}
