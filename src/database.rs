//! The database a process works on: the one of `DATABASE_URL`, or the private cluster.

mod sessions;

use std::env::join_paths;
use std::io;
use std::time::Duration;

use sha2::{Digest, Sha256};
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};
use tokio::time::{Instant, sleep};

use crate::config::{Config, Secret};
use crate::error::{Error, cause};
use crate::postgres::private::{self, PrivateCluster};
use crate::postgres::{pool, schema};

/// How long a database that cannot be reached is tried for.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(200);

/// A database that is reachable, durable and at this version's schema.
pub struct Database {
    /// How to connect, session settings included.
    pub options: PgConnectOptions,
    /// Set when this process runs the private cluster itself.
    pub cluster: Option<PrivateCluster>,
    /// The deployment's secret key. A chore may have none: it neither signs nor encrypts.
    pub secret_key: Option<SecretKey>,
}

type SecretKey = Secret<[u8; 32]>;

/// Why a process cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartRefused {
    /// A setting that cannot work: exit code 2.
    #[error("{0}")]
    Setting(String),
    /// Something that may work later: exit code 1.
    #[error("{0}")]
    Failed(String),
}

/// How a chore of the operator failed: what it was asked for cannot be (2), or the database failed (1).
impl From<Error> for StartRefused {
    fn from(error: Error) -> StartRefused {
        match &error {
            Error::Unavailable { outcome_unknown: true, source } => StartRefused::Failed(format!(
                "the database was lost while the chore was stored ({}): look whether it was before you repeat it",
                cause::plain(&**source)
            )),
            Error::Unavailable { source, .. } | Error::Internal(source) => {
                StartRefused::Failed(format!("the database failed: {}", cause::plain(&**source)))
            }
            refused => StartRefused::Setting(refused.to_string()),
        }
    }
}

impl StartRefused {
    /// A pod that cannot sign and encrypt.
    pub(crate) fn without_secret() -> StartRefused {
        StartRefused::Setting(
            "WAYPOST_SECRET_KEY is needed with DATABASE_URL, the same for every pod: make one with `openssl rand -base64 32`"
                .into(),
        )
    }

    /// The process' exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            StartRefused::Setting(_) => 2,
            StartRefused::Failed(_) => 1,
        }
    }
}

impl Database {
    /// Opens the database for serving: starts the private cluster when there is no URL.
    pub async fn open(config: &Config) -> Result<Database, StartRefused> {
        let Some(url) = &config.database_url else { return start_private(config).await };
        let key = secret_key(config)?.ok_or_else(StartRefused::without_secret)?;
        let database = Self::prepare(by_url(url.reveal())?, None, Some(key), config).await?;
        sessions::check_room(&database.options, config.pool).await?;
        Ok(database)
    }

    /// Opens the database for a chore: shares a private cluster that a pod is running.
    pub async fn open_for_chore(config: &Config) -> Result<Database, StartRefused> {
        let given = config.database_url.as_ref().map(|url| url.reveal().clone());
        match given.or_else(|| private::running(&config.data_dir)) {
            Some(url) => Self::prepare(by_url(&url)?, None, secret_key(config)?, config).await,
            None => Self::open(config).await,
        }
    }

    /// Resolves when the private cluster ends by itself, with a sentence that tells why.
    pub async fn died(&mut self) -> String {
        match &mut self.cluster {
            Some(cluster) => cluster.died().await,
            None => std::future::pending().await,
        }
    }

    /// Ends the private cluster, if this process runs it.
    pub async fn close(self) {
        if let Some(cluster) = self.cluster {
            cluster.stop().await;
        }
    }

    async fn prepare(
        options: PgConnectOptions,
        cluster: Option<PrivateCluster>,
        secret_key: Option<SecretKey>,
        config: &Config,
    ) -> Result<Database, StartRefused> {
        let options = pool::session(options);
        let mut db = connect(&options).await?;
        sessions::check_own(&mut db, &options).await?;
        sessions::look_for_settings(&mut db).await?;
        check_durability(&mut db, config.unsafe_durability).await?;
        let migrated = schema::migrate(&options).await;
        migrated.map_err(|error| {
            StartRefused::Failed(format!("the schema could not be brought up to date: {error}"))
        })?;
        if let Some(key) = &secret_key {
            check_secret(&mut db, key).await?;
        }
        let _ = db.close().await;
        Ok(Database { options, cluster, secret_key })
    }
}

fn by_url(url: &str) -> Result<PgConnectOptions, StartRefused> {
    url.parse().map_err(|_| {
        StartRefused::Setting(
            "DATABASE_URL is not a Postgres URL; it looks like postgres://user:password@host/name".into(),
        )
    })
}

async fn start_private(config: &Config) -> Result<Database, StartRefused> {
    let settings = private::Settings {
        data_dir: config.data_dir.clone(),
        programs: config.pg_bin.clone(),
        search_path: join_paths(&config.search_path).ok(),
    };
    let cluster = PrivateCluster::start(&settings)
        .await
        .map_err(|refusal| StartRefused::Setting(refusal.to_string()))?;
    let key = match &config.secret_key {
        Some(key) => key.clone(),
        None => Secret::new(private::secret_key(&config.data_dir).map_err(unreadable)?),
    };
    Database::prepare(cluster.connect_options(), Some(cluster), Some(key), config).await
}

/// The key that was given, or that of the data dir, where a private cluster has made one.
fn secret_key(config: &Config) -> Result<Option<SecretKey>, StartRefused> {
    match &config.secret_key {
        Some(key) => Ok(Some(key.clone())),
        None => Ok(private::existing_secret_key(&config.data_dir).map_err(unreadable)?.map(Secret::new)),
    }
}

fn unreadable(error: io::Error) -> StartRefused {
    StartRefused::Setting(format!("the key file in the data dir cannot be used: {error}"))
}

/// Connects, trying again for a while: a database may start after its pods.
async fn connect(options: &PgConnectOptions) -> Result<PgConnection, StartRefused> {
    let until = Instant::now() + PATIENCE;
    let mut has_warned = false;
    loop {
        match PgConnection::connect_with(options).await {
            Ok(db) => return Ok(db),
            Err(error) if is_refusal(&error) => {
                return Err(StartRefused::Failed(format!(
                    "the database refuses this user, password or name: {error}"
                )));
            }
            Err(error) if Instant::now() > until => {
                return Err(StartRefused::Failed(format!(
                    "the database could not be reached for 30 seconds: {error}"
                )));
            }
            Err(error) => {
                if !std::mem::replace(&mut has_warned, true) {
                    tracing::warn!(%error, "the database cannot be reached yet; trying for 30 seconds");
                }
                sleep(POLL).await;
            }
        }
    }
}

/// Wrong password (28) and no such database (3D): waiting will not mend them.
fn is_refusal(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|refused| refused.code());
    code.is_some_and(|code| code.starts_with("28") || code.starts_with("3D"))
}

/// What was acknowledged must not be lost: a database that may lose it is not served from.
async fn check_durability(db: &mut PgConnection, is_accepted: bool) -> Result<(), StartRefused> {
    let off: Vec<String> = sqlx::query_scalar(
        "-- database.durability
         select name from pg_settings
         where name in ('fsync', 'full_page_writes', 'synchronous_commit') and setting = 'off' order by name",
    )
    .fetch_all(db)
    .await
    .map_err(failed)?;
    if off.is_empty() || is_accepted {
        return Ok(());
    }
    Err(StartRefused::Setting(format!(
        "the database has {} off and may lose mail it has acknowledged: turn it on, or pass --unsafe-durability to accept that",
        off.join(" and ")
    )))
}

/// All pods on one database must hold the same secret key.
async fn check_secret(db: &mut PgConnection, key: &SecretKey) -> Result<(), StartRefused> {
    let check =
        Sha256::new_with_prefix("waypost secret check").chain_update(key.reveal()).finalize().to_vec();
    let stored: Vec<u8> = sqlx::query_scalar(
        "-- database.check_secret
         update deployment set secret_check = coalesce(secret_check, $1) returning secret_check",
    )
    .bind(&check)
    .fetch_one(db)
    .await
    .map_err(failed)?;
    match stored == check {
        true => Ok(()),
        false => Err(StartRefused::Setting(
            "WAYPOST_SECRET_KEY is not the one this database was set up with: give every pod the same key"
                .into(),
        )),
    }
}

fn failed(error: sqlx::Error) -> StartRefused {
    StartRefused::Failed(format!("the database failed: {error}"))
}
