//! One pod: built from its settings, served, drained. All pods are equal and keep nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use sqlx::PgPool;
use sqlx::postgres::PgConnectOptions;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::call::holds::Holds;
use crate::call::seal::Seal;
use crate::call::ticket::Tickets;
use crate::call::turns::Turns;
use crate::call::{Dispatch, Registry, Terms};
use crate::chores;
use crate::config::Config;
use crate::database::StartRefused;
use crate::doors;
use crate::doors::accept::{self, Drain, Limits};
use crate::doors::front::{Room, Sites, front, ops_front};
use crate::doors::probes::{self, Check, Checks};
use crate::doors::reception::Reception;
use crate::egress::{Egress, Roots};
use crate::gate::{Gate, RateLimits, pods};
use crate::inbox::{Polls, Poster};
use crate::postgres::{pool, schema};
use crate::telemetry::{self, Metrics};
use crate::wakes::Wakes;

/// Connections that may wait to be accepted: a crowd that comes back at once must not wait a second to be heard.
const BACKLOG: u32 = 4096;
/// How long a drain may take beyond its limit, for the connections that are cut then.
const GRACE: Duration = Duration::from_millis(500);

/// A pod that serves.
pub struct Pod {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where `/metrics` is, when there is an ops listener.
    pub ops_address: Option<SocketAddr>,
    /// Runs calls, for whoever lives in this process.
    pub dispatch: Arc<Dispatch>,
    /// How often each may call, for whoever lives in this process.
    pub limits: RateLimits,
    drain_delay: Duration,
    drain_limit: Duration,
    /// Set first when draining: `/readyz` fails.
    unready: CancellationToken,
    drain: Drain,
    /// Set last: background tasks end.
    stop: CancellationToken,
    background: JoinSet<&'static str>,
}

impl Pod {
    /// Builds a pod over a database that is at this version's schema, and serves.
    ///
    /// # Errors
    /// A listener's address that cannot be bound, a toolset that does not exist, no secret key, or no roots where
    /// the settings say.
    pub async fn start(
        config: &Config,
        registry: Registry,
        options: PgConnectOptions,
    ) -> Result<Pod, StartRefused> {
        check_toolsets(config, &registry)?;
        let secret = config.secret_key.as_ref().ok_or(StartRefused::without_secret())?;
        let tickets = Tickets::new(secret.reveal());
        let egress = egress(config)?;
        let metrics = telemetry::install(&config.log);
        let listener = bind(config.listen, "WAYPOST_LISTEN").await?;
        let address = local(&listener)?;
        let ops = match config.ops_listen {
            Some(at) => Some(bind(at, "WAYPOST_OPS_LISTEN").await?),
            None => None,
        };
        let ops_address = ops.as_ref().map(local).transpose()?;

        let drain = Drain::default();
        let terms = Terms {
            public_url: config.public_url(address),
            caps: config.caps,
            register_limit: config.register_limit,
            tickets,
            seal: Seal::new(secret.reveal()),
        };
        let dispatch = dispatch(config, terms, egress, &options, drain.closing.clone());
        let (unready, stop) = (CancellationToken::new(), CancellationToken::new());
        let checks = checks(dispatch.pool.clone(), unready.clone());
        let limits = RateLimits::new(config.rate_limit);
        let reception = reception(config, registry, &dispatch, limits.clone());
        let sites = Sites::new(config, &dispatch.terms.public_url);

        let mut background = JoinSet::new();
        let lanes = dispatch.poster.tasks(&options, &stop);
        for (name, task) in dispatch.wakes.tasks(&options, &stop).into_iter().chain(lanes) {
            background.spawn(named(name, task));
        }
        let webhooks = chores::webhooks::run(dispatch.clone(), options.clone(), stop.clone());
        background.spawn(named("webhooks", webhooks));
        background.spawn(named("chores", chores::run(options, stop.clone())));
        let polls = dispatch.polls.clone().run(dispatch.pool.clone(), stop.clone());
        background.spawn(named("polls", polls));
        let sharing = pods::run(dispatch.pool.clone(), limits.clone(), drain.closing.clone());
        background.spawn(named("pods", until(stop.clone(), sharing)));
        background.spawn(named("metrics", watch(metrics.clone(), dispatch.pool.clone(), stop.clone())));
        let router = doors::router(reception).merge(probes::probes(checks.clone()));
        background.spawn(named("doors", serve(listener, front(router, sites), drain.clone())));
        if let Some(ops) = ops {
            let router = ops_front(probes::ops(checks, metrics));
            background.spawn(named("ops", serve(ops, router, drain.clone())));
        }
        Ok(Pod {
            address,
            ops_address,
            dispatch,
            limits,
            drain_delay: config.drain_delay,
            drain_limit: config.drain_limit,
            unready,
            drain,
            stop,
            background,
        })
    }

    /// Returns when a task that must not end has ended, with its name.
    pub async fn died(&mut self) -> String {
        match self.background.join_next().await {
            Some(Ok(name)) => name.to_owned(),
            Some(Err(error)) => error.to_string(),
            None => "every task".to_owned(),
        }
    }

    /// Drains: `/readyz` fails first, then no more connections, held reads answer what they
    /// have, answers under way are finished; what is left at the limit is cut. Ends within the delay,
    /// the limit and half a second.
    pub async fn drain(mut self) {
        self.unready.cancel();
        tokio::time::sleep(self.drain_delay).await;
        self.drain.closing.cancel();
        self.drain.tracker.close();
        let limit = Instant::now() + self.drain_limit;
        if timeout_at(limit, self.drain.tracker.wait()).await.is_err() {
            tracing::warn!("some connections did not end in time; cutting them");
        }
        self.drain.cut.cancel();
        let ending = async {
            self.drain.tracker.wait().await;
            // Calls whose clients have gone still finish what they began.
            self.dispatch.turns.tasks.close();
            if timeout_at(limit, self.dispatch.turns.tasks.wait()).await.is_err() {
                tracing::warn!("some calls did not end in time; their transactions are undone");
            }
            self.stop.cancel();
            while self.background.join_next().await.is_some() {}
            self.dispatch.pool.close().await;
        };
        let _ = timeout_at(limit + GRACE, ending).await;
    }
}

fn check_toolsets(config: &Config, registry: &Registry) -> Result<(), StartRefused> {
    let known: Vec<&str> = registry.toolsets().iter().map(|toolset| toolset.name).collect();
    match config.default_toolsets.iter().all(|name| known.contains(&name.as_str())) {
        true => Ok(()),
        false => Err(StartRefused::Setting(format!(
            "WAYPOST_DEFAULT_TOOLSETS names a toolset that does not exist; there are: {}",
            known.join(", ")
        ))),
    }
}

async fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener, StartRefused> {
    let bound = async {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    bound
        .await
        .map_err(|error| StartRefused::Setting(format!("{setting}: cannot listen on {address}: {error}")))
}

fn local(listener: &TcpListener) -> Result<SocketAddr, StartRefused> {
    listener.local_addr().map_err(|error| StartRefused::Failed(error.to_string()))
}

fn dispatch(
    config: &Config,
    terms: Terms,
    egress: Egress,
    options: &PgConnectOptions,
    draining: CancellationToken,
) -> Arc<Dispatch> {
    let wakes = Wakes::default();
    Arc::new(Dispatch {
        pool: pool::open(options.clone(), config.pool),
        terms: Arc::new(terms),
        egress,
        poster: Poster::new(config.caps, wakes.clone()),
        polls: Polls::default(),
        wakes,
        turns: Turns::new(config.pool),
        holds: Holds::new(config.holds),
        draining,
    })
}

/// The way out, with the roots that are believed there.
fn egress(config: &Config) -> Result<Egress, StartRefused> {
    let roots = Roots::load(config.egress_ca.as_deref()).map_err(|error| {
        StartRefused::Setting(format!("WAYPOST_EGRESS_CA: the file cannot be used: {error}"))
    })?;
    if roots.is_empty() {
        tracing::warn!(
            "this system has no root certificates: webhooks reach nobody; install ca-certificates"
        );
    }
    Ok(Egress::new(roots, config.resolver.clone(), config.unsafe_egress))
}

fn reception(
    config: &Config,
    registry: Registry,
    dispatch: &Arc<Dispatch>,
    limits: RateLimits,
) -> Arc<Reception> {
    Arc::new(Reception {
        gate: Gate::new(
            dispatch.pool.clone(),
            dispatch.turns.clone(),
            dispatch.wakes.clone(),
            dispatch.terms.tickets.clone(),
        ),
        limits,
        room: Room::default(),
        dispatch: dispatch.clone(),
        registry,
        default_toolsets: config.default_toolsets.clone(),
        trusted_proxies: config.trusted_proxies.clone(),
    })
}

/// What `/readyz` looks at: not draining, the pool answers within a second, the schema
/// is at least this binary's.
fn checks(pool: PgPool, unready: CancellationToken) -> Checks {
    Arc::new(move || {
        let (pool, is_draining) = (pool.clone(), unready.is_cancelled());
        Box::pin(async move {
            let draining = Check { name: "draining", fault: is_draining.then_some("this pod is draining") };
            let looked = timeout(Duration::from_secs(1), schema::is_current(&pool)).await;
            let (pool, schema) = match looked {
                Ok(Ok(true)) => (None, None),
                Ok(Ok(false)) => (None, Some("the schema is older than this pod")),
                Ok(Err(_)) => (Some("the database does not answer"), None),
                Err(_) => (Some("the database does not answer within a second"), None),
            };
            vec![draining, Check { name: "pool", fault: pool }, Check { name: "schema", fault: schema }]
        })
    })
}

async fn serve(listener: TcpListener, router: Router, drain: Drain) {
    accept::serve(listener, router, Limits::default(), drain).await;
}

/// Keeps the metrics in shape, and the pool's among them.
async fn watch(metrics: Metrics, pool: PgPool, stop: CancellationToken) {
    let looking = async {
        loop {
            let idle = pool.num_idle();
            metrics::gauge!(telemetry::POOL_CONNECTIONS, "state" => "idle").set(idle as f64);
            let busy = (pool.size() as usize).saturating_sub(idle);
            metrics::gauge!(telemetry::POOL_CONNECTIONS, "state" => "busy").set(busy as f64);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = looking => {}
        () = metrics.upkeep() => {}
        () = stop.cancelled() => {}
    }
}

/// Work that is over earlier than the pod.
async fn until(stop: CancellationToken, work: impl Future<Output = ()>) {
    work.await;
    stop.cancelled().await;
}

async fn named(name: &'static str, task: impl Future<Output = ()>) -> &'static str {
    task.await;
    name
}
