//! Finds the PostgreSQL server programs (`postgres`, `initdb`) on this machine, versions 15 to 18.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest major version of PostgreSQL that Waypost runs on.
pub const OLDEST: u32 = 15;
/// The newest major version of PostgreSQL that Waypost is tested with.
pub const NEWEST: u32 = 18;

/// Folders whose name carries the major version, written here as `{}`.
const VERSIONED_PLACES: [&str; 11] = [
    "/usr/lib/postgresql/{}/bin",                          // Debian, Ubuntu
    "/usr/pgsql-{}/bin",                                   // RHEL and its kin, from the PostgreSQL project
    "/usr/libexec/postgresql{}",                           // Alpine
    "/usr/lib/postgresql{}/bin",                           // SUSE
    "/opt/homebrew/opt/postgresql@{}/bin",                 // Homebrew on arm
    "/usr/local/opt/postgresql@{}/bin",                    // Homebrew on intel
    "/home/linuxbrew/.linuxbrew/opt/postgresql@{}/bin",    // Homebrew on Linux
    "/Applications/Postgres.app/Contents/Versions/{}/bin", // Postgres.app
    "/opt/local/lib/postgresql{}/bin",                     // MacPorts
    "/Library/PostgreSQL/{}/bin",                          // the macOS installer
    "/opt/PostgreSQL/{}/bin",                              // the same on Linux
];

/// Folders that hold whichever version the system has.
const OTHER_PLACES: [&str; 5] =
    ["/usr/bin", "/usr/local/bin", "/usr/local/pgsql/bin", "/usr/libexec/postgresql", "/opt/homebrew/bin"];

/// One usable set of server programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    /// The folder with `postgres` and `initdb` in it, links resolved.
    pub bin: PathBuf,
    /// The major version that `postgres --version` tells.
    pub major: u32,
}

/// Why no server programs can be used; each displays as one sentence with the ways out.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// The folder given by `WAYPOST_PG_BIN` has no working server programs in it.
    #[error(
        "WAYPOST_PG_BIN is {}, but that folder has no PostgreSQL server programs that run (`postgres` and \
         `initdb`): point it at the bin folder of PostgreSQL {OLDEST} to {NEWEST}, or unset it to search the usual places",
        .0.display()
    )]
    Explicit(PathBuf),
    /// Nothing was found on the search path or in the usual places.
    #[error(
        "DATABASE_URL is not set and no PostgreSQL server programs were found for a private cluster: set \
         DATABASE_URL to a PostgreSQL {OLDEST} to {NEWEST}, or set WAYPOST_PG_BIN to the folder of its server \
         programs, or install them (`apt-get install postgresql`, `dnf install postgresql-server`, \
         `brew install postgresql@{NEWEST}`)"
    )]
    Nowhere,
    /// There are programs, but none of a version that Waypost supports.
    #[error(
        "the PostgreSQL found in {} is version {}, and Waypost needs {OLDEST} to {NEWEST}: install one of those, \
         or set WAYPOST_PG_BIN to the folder of its server programs, or set DATABASE_URL",
        .0.bin.display(), .0.major
    )]
    Unsupported(Programs),
    /// The data directory was made by a version whose programs are not here.
    #[error(
        "the private cluster was made by PostgreSQL {wanted}, but the programs in {} are version {}: set \
         WAYPOST_PG_BIN to the server programs of PostgreSQL {wanted}, or choose another WAYPOST_DATA_DIR",
        found.bin.display(), found.major
    )]
    OtherMajor {
        /// The major version in the data directory.
        wanted: u32,
        /// The best set of programs that was found instead.
        found: Programs,
    },
}

/// The programs to use: those in `explicit` when given, else the ones on `search_path` (a `PATH` value) and in the
/// usual places of each system. `wanted` is the major version an existing cluster needs; without one, the newest
/// supported version wins, and of two alike the one found first.
///
/// # Errors
/// [`Missing`] when there is nothing usable. Runs `postgres --version`, so call it where blocking is fine.
pub fn find(
    explicit: Option<&Path>,
    search_path: Option<&OsStr>,
    wanted: Option<u32>,
) -> Result<Programs, Missing> {
    let found = match explicit {
        Some(folder) => vec![look_in(folder).ok_or_else(|| Missing::Explicit(folder.to_owned()))?],
        None => look_everywhere(search_path),
    };
    choose(&found, wanted)
}

fn look_everywhere(search_path: Option<&OsStr>) -> Vec<Programs> {
    let on_path = search_path.map(|path| std::env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    let versioned = (OLDEST..=NEWEST).rev().flat_map(|major| {
        VERSIONED_PLACES.iter().map(move |place| PathBuf::from(place.replace("{}", &major.to_string())))
    });
    let others = OTHER_PLACES.iter().map(PathBuf::from);
    on_path.into_iter().chain(versioned).chain(others).filter_map(|folder| look_in(&folder)).collect()
}

/// The programs in one folder, if both are there and `postgres` can tell its version.
fn look_in(folder: &Path) -> Option<Programs> {
    // A link such as /usr/local/bin/postgres may stand alone; its target has the rest beside it.
    let real = folder.join("postgres").canonicalize().ok()?;
    let bin = real.parent()?.to_owned();
    if !bin.join("initdb").is_file() {
        return None;
    }
    let answer = Command::new(&real).arg("--version").output().ok()?;
    let major = major_of(&String::from_utf8_lossy(&answer.stdout))?;
    Some(Programs { bin, major })
}

/// `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)` → 15; also understands `18beta1`.
fn major_of(version: &str) -> Option<u32> {
    let number = version.split("(PostgreSQL)").nth(1)?.trim_start();
    let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn choose(found: &[Programs], wanted: Option<u32>) -> Result<Programs, Missing> {
    let supported = |programs: &&Programs| (OLDEST..=NEWEST).contains(&programs.major);
    // `max_by_key` keeps the last of equals; reversed, that is the first one found.
    let newest = found.iter().rev().filter(supported).max_by_key(|programs| programs.major);
    match (wanted, newest, found.first()) {
        (_, _, None) => Err(Missing::Nowhere),
        (_, None, Some(first)) => Err(Missing::Unsupported(first.clone())),
        (None, Some(newest), _) => Ok(newest.clone()),
        (Some(wanted), Some(newest), _) => found
            .iter()
            .filter(supported)
            .find(|programs| programs.major == wanted)
            .cloned()
            .ok_or_else(|| Missing::OtherMajor { wanted, found: newest.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bin: &str, major: u32) -> Programs {
        Programs { bin: bin.into(), major }
    }

    #[test]
    fn the_version_line_of_each_packager_is_understood() {
        assert_eq!(major_of("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(major_of("postgres (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(major_of("postgres: not found"), None);
    }

    #[test]
    fn the_newest_supported_version_wins_and_the_first_of_equals() {
        let found = [at("/a", 15), at("/b", 17), at("/c", 17), at("/d", 19)];
        assert_eq!(choose(&found, None).unwrap(), at("/b", 17));
    }

    #[test]
    fn an_existing_cluster_gets_its_own_major() {
        let found = [at("/a", 18), at("/b", 15)];
        assert_eq!(choose(&found, Some(15)).unwrap(), at("/b", 15));
        let refused = choose(&found, Some(16)).unwrap_err().to_string();
        assert!(
            refused.contains("made by PostgreSQL 16") && refused.contains("/a are version 18"),
            "{refused}"
        );
    }

    #[test]
    fn only_an_old_version_is_told_as_such() {
        let refused = choose(&[at("/old", 13)], None).unwrap_err().to_string();
        assert!(refused.contains("version 13") && refused.contains("15 to 18"), "{refused}");
        assert!(matches!(choose(&[], Some(15)), Err(Missing::Nowhere)));
    }

    #[test]
    fn a_given_folder_without_programs_is_refused_by_name() {
        let empty = tempfile::tempdir().unwrap();
        let refused = find(Some(empty.path()), None, None).unwrap_err().to_string();
        assert!(refused.contains("WAYPOST_PG_BIN") && refused.contains(&*empty.path().to_string_lossy()));
    }
}
