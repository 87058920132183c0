//! The data directory: what lies where in it, and the lock that keeps it for one pod.
//!
//! `postgres/` is the cluster, `run/` its socket, `postgres.log` its log, `lock` the lock, `secret.key` the pod's key.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use sha2::{Digest as _, Sha256};

use super::refusal::Refusal;

/// A socket's address holds 104 bytes on macOS and 108 on Linux, the closing NUL included.
const LONGEST_SOCKET_PATH: usize = 103;
/// The name Postgres gives its socket for port 5432.
const SOCKET_NAME: &str = ".s.PGSQL.5432";
/// Beyond this the log of earlier runs is put aside at the next start.
const LARGEST_LOG: u64 = 10 * 1024 * 1024;

/// A data directory, by its absolute path with all links resolved.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the data directory when it is not there yet.
    pub(super) fn open(data_dir: &Path) -> Result<Self, Refusal> {
        // As root the unprivileged user has to pass through; its own files are closed one by one.
        let mode = if geteuid().is_root() { 0o755 } else { 0o700 };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(data_dir)
            .map_err(Refusal::io("create the data directory", data_dir))?;
        let path = data_dir.canonicalize().map_err(Refusal::io("open the data directory", data_dir))?;
        Ok(Self { path })
    }

    /// The data directory when it exists.
    pub(super) fn existing(data_dir: &Path) -> Option<Self> {
        data_dir.canonicalize().ok().map(|path| Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn pgdata(&self) -> PathBuf {
        self.path.join("postgres")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.path.join("postgres.log")
    }

    /// The folder of the socket: `run/` here, or a short one under /tmp named by a hash when the path is too long for
    /// a socket's address. Always the same one for the same data directory.
    pub(super) fn run(&self) -> PathBuf {
        let here = self.path.join("run");
        if here.join(SOCKET_NAME).as_os_str().len() <= LONGEST_SOCKET_PATH {
            return here;
        }
        let digest = Sha256::digest(self.path.as_os_str().as_bytes());
        let name = digest.iter().take(8).fold("waypost-".to_owned(), |mut name, byte| {
            let _ = write!(name, "{byte:02x}");
            name
        });
        Path::new("/tmp").join(name)
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.run().join(SOCKET_NAME)
    }

    /// The `DATABASE_URL` of this data directory's cluster. The port names the socket file; it is spelled out so that
    /// a stray `PGPORT` in the reader's environment changes nothing.
    pub(super) fn url(&self) -> String {
        format!("postgres://postgres@localhost:5432/waypost?host={}", percent_encoded(self.run().as_os_str()))
    }

    /// Takes the data directory for this process until the file is closed, by exit or by kill.
    pub(super) fn lock(&self) -> Result<File, Refusal> {
        let path = self.path.join("lock");
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(Refusal::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.read_to_string(&mut holder);
                let pid = holder.trim().parse().ok();
                return Err(Refusal::InUse { data_dir: self.path.clone(), pid, url: self.url() });
            }
            Err(TryLockError::Error(error)) => return Err(Refusal::io("lock", path)(error)),
        }
        // Only for the reader of the refusal above: the lock itself is what counts.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(file)
    }

    /// Removes what a killed server left in the socket's folder: its lock file names a process number that anybody may
    /// have by now. Only called under the lock, with no server running.
    pub(super) fn remove_stale_socket(&self) {
        let _ = fs::remove_file(self.socket());
        let _ = fs::remove_file(self.run().join(format!("{SOCKET_NAME}.lock")));
        // Empty now; one that came with a volume of other user numbers is made anew by whoever runs the server.
        let _ = fs::remove_dir(self.run());
    }

    /// The server's log, open for appending; an overlong one becomes `postgres.log.1`.
    pub(super) fn open_log(&self) -> Result<File, Refusal> {
        let path = self.log();
        if fs::metadata(&path).is_ok_and(|meta| meta.len() > LARGEST_LOG) {
            let old = self.path.join("postgres.log.1");
            fs::rename(&path, old).map_err(Refusal::io("put aside", &path))?;
        }
        File::options().append(true).create(true).mode(0o600).open(&path).map_err(Refusal::io("open", path))
    }
}

fn percent_encoded(path: &OsStr) -> String {
    path.as_bytes().iter().fold(String::new(), |mut text, &byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                text.push(byte.into())
            }
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(path: &str) -> Folder {
        Folder { path: path.into() }
    }

    #[test]
    fn a_deep_folder_gets_a_short_socket_that_stays_the_same() {
        let deep = at(&format!("/var/{}", "d".repeat(90)));
        assert!(deep.run().starts_with("/tmp") && deep.socket().as_os_str().len() <= LONGEST_SOCKET_PATH);
        assert_eq!(deep.run(), deep.clone().run());
        assert_eq!(at("/srv/w").socket(), Path::new("/srv/w/run/.s.PGSQL.5432"));
    }

    #[test]
    fn odd_names_survive_the_url() {
        let odd = at("/srv/a b+c&d");
        assert_eq!(odd.url(), "postgres://postgres@localhost:5432/waypost?host=/srv/a%20b%2Bc%26d/run");
    }
}
