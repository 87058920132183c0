//! Makes the cluster, once: in a folder of its own that gets its real name only when complete.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use super::folder::Folder;
use super::owner::Owner;
use super::postmaster;
use super::refusal::{Refusal, complaint};
use crate::postgres::programs::{NEWEST, OLDEST, Programs};

/// What an unfinished cluster's folder is called, with the maker's process number after it.
const UNFINISHED: &str = "postgres.new-";

/// The major version of the cluster in `pgdata`; `None` when there is none yet.
pub(super) fn major_of_cluster(pgdata: &Path) -> Result<Option<u32>, Refusal> {
    let Ok(version) = fs::read_to_string(pgdata.join("PG_VERSION")) else {
        // `remove_dir` only takes an empty folder, such as a volume made ready by hand.
        return match fs::symlink_metadata(pgdata) {
            Ok(_) => {
                fs::remove_dir(pgdata).map(|()| None).map_err(|_| Refusal::NotACluster(pgdata.to_owned()))
            }
            Err(_) => Ok(None),
        };
    };
    let version = version.trim();
    match version.parse() {
        Ok(major) if (OLDEST..=NEWEST).contains(&major) => Ok(Some(major)),
        _ if version.starts_with(|c: char| c.is_ascii_digit()) => {
            Err(Refusal::UnsupportedCluster { pgdata: pgdata.to_owned(), version: version.to_owned() })
        }
        _ => Err(Refusal::NotACluster(pgdata.to_owned())),
    }
}

/// Makes the cluster: checksums, UTF-8, no locale, trust through the socket only. What an earlier try left is removed.
pub(super) fn make_cluster(folder: &Folder, programs: &Programs, owner: &Owner) -> Result<(), Refusal> {
    remove_unfinished(folder.path());
    let fresh = folder.path().join(format!("{UNFINISHED}{}", std::process::id()));
    owner.private_folder(&fresh)?;

    let mut initdb = Command::new(programs.bin.join("initdb"));
    initdb
        .arg("--pgdata")
        .arg(&fresh)
        .args(["--username=postgres", "--auth-local=trust", "--auth-host=reject"])
        .args(["--encoding=UTF8", "--no-locale", "--data-checksums", "--no-instructions"])
        .stdin(Stdio::null());
    postmaster::confine(&mut initdb, folder, owner);
    let failed = |complaint| Refusal::InitFailed { data_dir: folder.path().to_owned(), complaint };
    let output = initdb.output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        remove_unfinished(folder.path());
        return Err(failed(complaint(&String::from_utf8_lossy(&output.stderr))));
    }

    let pgdata = folder.pgdata();
    fs::rename(&fresh, &pgdata).map_err(Refusal::io("put the new cluster at", &pgdata))?;
    // initdb has flushed its files; the new name has to reach the disk as well.
    File::open(folder.path()).and_then(|dir| dir.sync_all()).map_err(Refusal::io("flush", folder.path()))
}

/// Best effort: a folder that stays only costs space, the next start tries again.
fn remove_unfinished(data_dir: &Path) {
    let Ok(entries) = fs::read_dir(data_dir) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
