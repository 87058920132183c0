//! The operator's chores as processes: what they print and how they end when something is wrong.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::timeout;

use crate::house::House;
use crate::program;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_operator_got_wrong_ends_with_two_and_a_database_that_fails_with_one() {
    let house = House::empty().await;
    let folder = program::folder();
    let run = async |arguments: &[&str]| {
        let mut chore = program::command_on(&house.options, folder.path());
        chore.args(arguments);
        let ended = program::run(chore).await;
        assert!(ended.stdout.is_empty());
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    let (code, said) = run(&["agent", "list", "--org", "nobody"]).await;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("organization"), "{said}");

    sqlx::raw_sql("alter table organization rename to gone").execute(&house.db).await.unwrap();
    let (code, said) = run(&["org", "list"]).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("SQLSTATE 42P01"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_does_not_exist_ends_a_chore_with_one() {
    let house = House::empty().await;
    let folder = program::folder();
    for arguments in [&["migrate"][..], &["org", "list"]] {
        let mut chore = program::command_on(&house.options.clone().database("nowhere"), folder.path());
        chore.args(arguments);
        let ended = program::run(chore).await;
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains("refuses this user, password or name"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chore_that_waits_for_its_database_says_so() {
    let folder = program::folder();
    let mut chore = program::command(folder.path());
    chore.env("DATABASE_URL", "postgres://nobody@127.0.0.1:1/nothing").arg("migrate").stderr(Stdio::piped());
    let mut child = chore.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let first =
        timeout(Duration::from_secs(20), said.next_line()).await.expect("before it gives up").unwrap();
    assert!(first.unwrap().contains("cannot be reached yet"));
    child.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_key_file_is_refused_with_a_database_url_too() {
    let house = House::empty().await;
    let folder = program::folder();
    std::fs::write(folder.path().join("secret.key"), "c2hvcnQ=\n").unwrap();
    let mut migrate = program::command_on(&house.options, folder.path());
    migrate.arg("migrate").env_remove("WAYPOST_SECRET_KEY");
    let refused = program::run(migrate).await;
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("key file"), "{said}");
}
