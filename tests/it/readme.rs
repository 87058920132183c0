//! The README's tour, run as printed.

use std::process::Stdio;

use regex::Regex;
use tokio::process::Command;

use crate::house::House;

/// What stands between the outputs of two blocks.
const MARK: &str = "\n=====\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tour_prints_what_the_readme_says() {
    let house = House::open().await;
    let tour = tour();
    let blocks = fenced(&tour, "sh");
    let script: Vec<String> =
        blocks.iter().map(|block| format!("{block}printf '{}'\n", MARK.escape_default())).collect();
    let script = script.concat().replace("http://127.0.0.1:8080", &house.url(0));
    let folder = tempfile::tempdir().unwrap();
    let bash = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        .current_dir(&folder)
        .stderr(Stdio::inherit())
        .output()
        .await
        .unwrap();
    assert!(bash.status.success(), "{}", String::from_utf8_lossy(&bash.stdout));

    let printed = String::from_utf8(bash.stdout).unwrap();
    let printed: Vec<String> = printed.split(MARK).map(masked).filter(|output| !output.is_empty()).collect();
    let promised: Vec<String> = fenced(&tour, "(?:json|text)").iter().map(|output| masked(output)).collect();
    assert_eq!(printed, promised);
}

fn tour() -> String {
    let readme = include_str!("../../README.md");
    let from = readme.find("## A tour").unwrap();
    let to = readme[from..].find("## Configuration").unwrap();
    readme[from..from + to].to_owned()
}

/// The blocks fenced as `language`, a pattern, in order.
fn fenced(text: &str, language: &str) -> Vec<String> {
    let fence = Regex::new(&format!(r"(?s)```{language}\n(.*?)```")).unwrap();
    fence.captures_iter(text).map(|block| block[1].to_owned()).collect()
}

/// Ids and times differ from run to run.
fn masked(output: &str) -> String {
    let id = Regex::new(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap();
    let time = Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z").unwrap();
    time.replace_all(&id.replace_all(output.trim(), "ID"), "TIME").into_owned()
}
