//! The private cluster, with real server programs: made once, durable, one pod's own, mended after any kill.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Executor as _};
use tempfile::TempDir;
use waypost::postgres::private::{PrivateCluster, Refusal, Settings, running};
use waypost::postgres::programs::{self, Programs};

use crate::house::cluster::programs_in;

/// The folder name that tells [`a_cluster_is_held_until_its_process_is_killed`] that it is the process to be killed.
const HELD: &str = "held-by-a-child";

#[tokio::test]
async fn a_private_cluster_is_durable_and_keeps_its_rows() {
    let dir = folder();
    let cluster = started(dir.path()).await;
    let mut connection = PgConnection::connect_with(&cluster.connect_options()).await.unwrap();
    for (setting, value) in [
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
        ("data_checksums", "on"),
        ("server_encoding", "UTF8"),
        ("lc_collate", "C"),
        ("listen_addresses", ""),
        ("max_connections", "200"),
    ] {
        assert_eq!(current(&mut connection, setting).await, value, "{setting}");
    }
    connection.execute("create table kept (n int); insert into kept values (7)").await.unwrap();
    assert_eq!(running(dir.path()), Some(cluster.url()));

    cluster.stop().await;
    assert_eq!(running(dir.path()), None);
    let cluster = started(dir.path()).await;
    assert_eq!(kept(&cluster.url()).await, 7);
    cluster.stop().await;
}

#[tokio::test]
async fn fsync_is_on_whatever_the_clusters_own_files_say() {
    let dir = folder();
    started(dir.path()).await.stop().await;
    let conf = dir.path().join("postgres/postgresql.conf");
    let text = fs::read_to_string(&conf).unwrap() + "\nfsync = off\nlisten_addresses = '*'\n";
    fs::write(&conf, text).unwrap();

    let cluster = started(dir.path()).await;
    let mut connection = PgConnection::connect_with(&cluster.connect_options()).await.unwrap();
    assert_eq!(current(&mut connection, "fsync").await, "on");
    assert_eq!(current(&mut connection, "listen_addresses").await, "");
    cluster.stop().await;
}

#[tokio::test]
async fn a_second_pod_is_refused_with_a_url_that_works() {
    let dir = folder();
    let cluster = started(dir.path()).await;
    let refusal = PrivateCluster::start(&programs_in(dir.path())).await.unwrap_err();
    let Refusal::InUse { url, pid, .. } = &refusal else { panic!("{refusal}") };
    assert_eq!(*pid, i32::try_from(std::process::id()).ok());
    let said = refusal.to_string();
    assert!(said.contains(&format!("DATABASE_URL='{url}'")) && !said.contains('\n'), "{said}");

    let mut connection = PgConnection::connect(url).await.unwrap();
    let one: i32 = sqlx::query_scalar("select 1").fetch_one(&mut connection).await.unwrap();
    assert_eq!(one, 1);
    cluster.stop().await;
}

#[tokio::test]
async fn what_was_committed_survives_kill_9_of_the_pod() {
    let dir = folder();
    let held = dir.path().join(HELD);
    fs::create_dir(&held).unwrap();
    let mut pod = HeldCluster::start(std::env::current_exe().unwrap(), &held, None);
    let mut connection = PgConnection::connect(&pod.url).await.unwrap();
    connection.execute("create table kept (n int); insert into kept values (7)").await.unwrap();
    assert_eq!(running(&held).as_ref(), Some(&pod.url));

    pod.child.kill().unwrap();
    pod.child.wait().unwrap();
    let cluster = started(&held).await;
    assert_eq!(kept(&cluster.url()).await, 7);
    cluster.stop().await;
}

#[tokio::test]
async fn a_server_that_was_killed_is_told_and_the_next_start_recovers() {
    let dir = folder();
    let mut cluster = started(dir.path()).await;
    let mut connection = PgConnection::connect_with(&cluster.connect_options()).await.unwrap();
    connection.execute("create table kept (n int); insert into kept values (7)").await.unwrap();
    kill(postmaster(dir.path()), Signal::SIGKILL).unwrap();
    let said = cluster.died().await;
    assert!(said.contains("ended by itself") && said.contains("postgres.log"), "{said}");
    drop(cluster);

    // The number in the stale file is alive, but it is no server.
    let pid_file = dir.path().join("postgres/postmaster.pid");
    let stale = fs::read_to_string(&pid_file).unwrap();
    let (_, rest) = stale.split_once('\n').unwrap();
    fs::write(&pid_file, format!("{}\n{rest}", std::process::id())).unwrap();
    let cluster = started(dir.path()).await;
    assert_eq!(kept(&cluster.url()).await, 7);
    cluster.stop().await;
}

#[tokio::test]
async fn a_server_left_by_an_earlier_pod_is_stopped_and_replaced() {
    let dir = folder();
    started(dir.path()).await.stop().await;
    let pgdata = dir.path().join("postgres");
    let owner = fs::metadata(&pgdata).unwrap();
    let mut orphan = Command::new(server_programs().bin.join("postgres"));
    orphan.arg("-D").arg(&pgdata).args(["-F", "-h", "", "-k"]).arg(dir.path().join("run"));
    if geteuid().is_root() {
        orphan.uid(owner.uid()).gid(owner.gid());
    }
    let mut orphan = orphan.current_dir(dir.path()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(orphan.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(log.any(|line| line.contains("ready to accept connections")));

    let cluster = started(dir.path()).await;
    assert!(orphan.wait().unwrap().success());
    let mut connection = PgConnection::connect(&cluster.url()).await.unwrap();
    assert_eq!(current(&mut connection, "fsync").await, "on");
    cluster.stop().await;
}

#[tokio::test]
async fn a_half_made_cluster_is_made_again() {
    let dir = folder();
    let half = dir.path().join("postgres.new-12345");
    fs::create_dir(&half).unwrap();
    fs::write(half.join("PG_VERSION"), "15\n").unwrap();
    let cluster = started(dir.path()).await;
    assert!(!half.exists());
    cluster.stop().await;
}

#[tokio::test]
async fn a_cluster_of_another_major_is_one_plain_sentence() {
    let dir = folder();
    let pgdata = dir.path().join("postgres");
    fs::create_dir(&pgdata).unwrap();
    let here = server_programs();
    let other = if here.major == 17 { 16 } else { 17 };
    for (version, expected) in [
        ("14".to_owned(), "was made by PostgreSQL 14, and Waypost runs 15 to 18".to_owned()),
        ("9.6".to_owned(), "was made by PostgreSQL 9.6".to_owned()),
        (other.to_string(), format!("set WAYPOST_PG_BIN to the server programs of PostgreSQL {other}")),
        ("nonsense".to_owned(), "holds no PostgreSQL cluster".to_owned()),
    ] {
        fs::write(pgdata.join("PG_VERSION"), format!("{version}\n")).unwrap();
        let settings = Settings { programs: Some(here.bin.clone()), ..programs_in(dir.path()) };
        let said = PrivateCluster::start(&settings).await.unwrap_err().to_string();
        assert!(said.contains(&expected) && !said.contains('\n'), "{said}");
    }
}

#[tokio::test]
async fn a_deep_data_directory_still_gets_a_socket() {
    let dir = folder();
    let deep = dir.path().join("d".repeat(60)).join("e".repeat(60));
    let cluster = started(&deep).await;
    let socket_folder = PathBuf::from(cluster.url().split_once("host=").unwrap().1);
    assert_eq!(fs::metadata(&socket_folder).unwrap().permissions().mode() & 0o777, 0o700);
    PgConnection::connect(&cluster.url()).await.unwrap();
    cluster.stop().await;
    fs::remove_dir_all(socket_folder).unwrap();
}

#[tokio::test]
async fn as_root_the_server_runs_as_another_user() {
    if !geteuid().is_root() {
        return;
    }
    // What `mktemp -d` makes: closed to everyone but root.
    let dir = tempfile::tempdir().unwrap();
    let cluster = started(dir.path()).await;
    for path in ["postgres", "postgres/PG_VERSION", "run"] {
        assert_ne!(fs::metadata(dir.path().join(path)).unwrap().uid(), 0, "{path}");
    }
    let process = fs::metadata(format!("/proc/{}", postmaster(dir.path()))).unwrap();
    assert_ne!(process.uid(), 0);
    cluster.stop().await;

    let below = dir.path().join("closed/below");
    fs::create_dir_all(&below).unwrap();
    fs::set_permissions(dir.path().join("closed"), Permissions::from_mode(0o700)).unwrap();
    let said = PrivateCluster::start(&programs_in(&below)).await.unwrap_err().to_string();
    assert!(said.contains("may not enter") && said.contains("WAYPOST_DATA_DIR"), "{said}");
}

#[tokio::test]
async fn an_ordinary_user_holds_a_cluster_too() {
    // Where the tests run as an ordinary user, all the others show it.
    if !geteuid().is_root() {
        return;
    }
    const NOBODY: u32 = 65534;
    let dir = folder();
    let held = dir.path().join(HELD);
    fs::create_dir(&held).unwrap();
    chown(&held, Some(NOBODY), Some(NOBODY)).unwrap();
    // The build folder may be out of that user's reach.
    let program = dir.path().join("it");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mut pod = HeldCluster::start(program, &held, Some(NOBODY));
    assert_eq!(fs::metadata(held.join("postgres")).unwrap().uid(), NOBODY);
    PgConnection::connect(&pod.url).await.unwrap();

    pod.child.kill().unwrap();
    pod.child.wait().unwrap();
    // As root now: the files' owner goes on owning the cluster.
    started(&held).await.stop().await;
    assert_eq!(fs::metadata(held.join("postgres")).unwrap().uid(), NOBODY);
}

/// The process that other tests here kill: started by them in a folder called [`HELD`], it holds a cluster there for
/// as long as it lives. In an ordinary run there is nothing to hold, and it ends at once.
#[tokio::test]
async fn a_cluster_is_held_until_its_process_is_killed() {
    let data_dir = std::env::current_dir().unwrap();
    if !data_dir.ends_with(HELD) {
        return;
    }
    let mut cluster = started(&data_dir).await;
    writeln!(std::io::stdout(), "holding {}", cluster.url()).unwrap();
    cluster.died().await;
}

/// A pod in a process of its own, killed when the test is done with it.
struct HeldCluster {
    child: Child,
    url: String,
}

impl HeldCluster {
    fn start(program: PathBuf, data_dir: &Path, user: Option<u32>) -> Self {
        let mut command = Command::new(program);
        command.args([
            "--exact",
            "private_cluster::a_cluster_is_held_until_its_process_is_killed",
            "--nocapture",
        ]);
        command.current_dir(data_dir).stdin(Stdio::null()).stdout(Stdio::piped());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url =
            lines.map_while(Result::ok).find_map(|line| Some(line.split_once("holding ")?.1.to_owned()));
        let mut held = Self { child, url: String::new() };
        held.url = url.expect("the child says what it holds");
        held
    }
}

impl Drop for HeldCluster {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A folder that the server's user can pass through.
fn folder() -> TempDir {
    tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().unwrap()
}

async fn started(data_dir: &Path) -> PrivateCluster {
    PrivateCluster::start(&programs_in(data_dir)).await.unwrap_or_else(|refusal| panic!("{refusal}"))
}

fn server_programs() -> Programs {
    let Settings { programs, search_path, .. } = programs_in(Path::new("unused"));
    programs::find(programs.as_deref(), search_path.as_deref(), None).unwrap()
}

fn postmaster(data_dir: &Path) -> Pid {
    let text = fs::read_to_string(data_dir.join("postgres/postmaster.pid")).unwrap();
    Pid::from_raw(text.lines().next().unwrap().parse().unwrap())
}

async fn current(connection: &mut PgConnection, setting: &str) -> String {
    let read = match setting {
        // A property of the database, not a setting since PostgreSQL 16.
        "lc_collate" => {
            "select datcollate::text from pg_database where datname = current_database() and $1 <> ''"
        }
        _ => "select current_setting($1)",
    };
    sqlx::query_scalar(read).bind(setting.to_owned()).fetch_one(connection).await.unwrap()
}

async fn kept(url: &str) -> i32 {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::query_scalar("select n from kept").fetch_one(&mut connection).await.unwrap()
}
