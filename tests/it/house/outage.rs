//! A house on a server of its own, which a test may stop or kill and start again under its pods.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::PgPool;
use tempfile::TempDir;
use waypost::config::Config;
use waypost::postgres::private::{PrivateCluster, Settings};
use waypost::postgres::{pool, schema};

use super::cluster::programs_in;
use super::{House, until};
use crate::program;

/// The server of one house.
pub struct OwnServer {
    cluster: Option<PrivateCluster>,
    programs: Settings,
    folder: TempDir,
}

/// How Postgres goes down.
#[derive(Debug, Clone, Copy)]
pub enum End {
    /// In good order.
    Stop,
    /// Its first process is killed.
    KillAll,
    /// A session that commits is killed, and it ends all others and recovers by itself.
    KillOne,
}

/// Two pods with these settings, on a server of their own.
pub async fn two_pods_on_their_own_server(config: Config) -> (OwnServer, House) {
    let folder = program::folder();
    let programs = programs_in(folder.path());
    let cluster = PrivateCluster::start(&programs).await.unwrap();
    let mut house = House::empty().await;
    house.options = cluster.connect_options();
    schema::migrate(&pool::session(house.options.clone())).await.unwrap();
    house.db = PgPool::connect_lazy_with(house.options.clone());
    for _ in 0..2 {
        house.add_pod(config.clone(), waypost::registry()).await;
    }
    (OwnServer { cluster: Some(cluster), programs, folder }, house)
}

impl OwnServer {
    /// Ends it, and returns once there is one again.
    pub async fn bring_down(&mut self, house: &House, end: End) {
        match end {
            End::Stop => self.cluster.take().unwrap().stop().await,
            End::KillAll => {
                let pid_file = self.folder.path().join("postgres/postmaster.pid");
                let pid_file = std::fs::read_to_string(pid_file).unwrap();
                crash(pid_file.lines().next().unwrap().parse().unwrap());
                self.cluster.take().unwrap().died().await;
            }
            End::KillOne => return kill_one(house).await,
        }
        self.cluster = Some(PrivateCluster::start(&self.programs).await.unwrap());
    }

    /// Ends it for good.
    pub async fn stop(mut self) {
        self.cluster.take().unwrap().stop().await;
    }
}

async fn kill_one(house: &House) {
    let committing = "select pid from pg_stat_activity where query = 'commit' limit 1";
    until("a session commits", async || {
        let pid: Option<i32> = sqlx::query_scalar(committing).fetch_optional(&house.db).await.unwrap();
        pid.inspect(|pid| crash(*pid)).is_some()
    })
    .await;
    until("it takes sessions again", async || sqlx::query("select 1").execute(&house.db).await.is_ok()).await;
}

fn crash(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}
