//! Who the private Postgres runs as: ourselves, or an unprivileged user when we are root.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{Uid, User, getegid, geteuid};

use super::refusal::Refusal;

/// The user whose processes and files the cluster is made of.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    uid: u32,
    gid: u32,
    name: String,
    /// We are root and give that up for Postgres.
    drops: bool,
}

impl Owner {
    /// The owner of the cluster in `pgdata`, or who should own it once it is made. As root: whoever owns it already,
    /// else `postgres`, else `nobody` (`initdb` wants an entry in the user database, so a bare number will not do).
    pub(super) fn choose(pgdata: &Path) -> Result<Self, Refusal> {
        let owner_now = fs::metadata(pgdata).ok().map(|meta| meta.uid());
        if !geteuid().is_root() {
            let uid = geteuid().as_raw();
            return match owner_now {
                Some(other) if other != uid => {
                    Err(Refusal::OtherOwner { path: pgdata.to_owned(), uid: other })
                }
                _ => Ok(Self { uid, gid: getegid().as_raw(), name: uid.to_string(), drops: false }),
            };
        }
        let by_files =
            owner_now.filter(|&uid| uid != 0).and_then(|uid| User::from_uid(Uid::from_raw(uid)).ok());
        let by_name = |name| User::from_name(name).ok().flatten().filter(|user| !user.uid.is_root());
        let user = by_files.flatten().or_else(|| by_name("postgres")).or_else(|| by_name("nobody"));
        let user = user.ok_or(Refusal::NoUser)?;
        Ok(Self { uid: user.uid.as_raw(), gid: user.gid.as_raw(), name: user.name, drops: true })
    }

    /// Makes `command` run as this user, dropping every group of root's.
    pub(super) fn applied_to(&self, command: &mut Command) {
        if self.drops {
            command.uid(self.uid).gid(self.gid);
        }
    }

    /// Makes the folder if need be, and gives it to this user alone (mode 0700).
    pub(super) fn private_folder(&self, folder: &Path) -> Result<(), Refusal> {
        let made = fs::DirBuilder::new().mode(0o700).create(folder);
        if let Err(error) = made
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(Refusal::Io { what: "create", path: folder.to_owned(), source: error });
        }
        // Never follow a link that somebody else may have put there.
        let meta = fs::symlink_metadata(folder).map_err(Refusal::io("read", folder))?;
        let ours = meta.uid() == self.uid || (self.drops && meta.uid() == 0);
        if !meta.is_dir() || !ours {
            return Err(Refusal::OtherOwner { path: folder.to_owned(), uid: meta.uid() });
        }
        self.give(folder, &meta).map_err(Refusal::io("give to its user", folder))?;
        fs::set_permissions(folder, Permissions::from_mode(0o700))
            .map_err(Refusal::io("set the mode of", folder))
    }

    /// Gives a folder and all in it to this user (root only; a volume may come from a machine with other numbers).
    pub(super) fn take_over(&self, folder: &Path) -> io::Result<()> {
        let meta = fs::symlink_metadata(folder)?;
        if !self.drops || meta.uid() == self.uid {
            return Ok(());
        }
        if meta.is_dir() {
            for entry in fs::read_dir(folder)? {
                self.take_over(&entry?.path())?;
            }
        }
        // The folder itself comes last, so that a run cut short is done again.
        self.give(folder, &meta)
    }

    fn give(&self, path: &Path, meta: &Metadata) -> io::Result<()> {
        if !self.drops || meta.uid() == self.uid {
            return Ok(());
        }
        lchown(path, Some(self.uid), Some(self.gid))
    }

    /// Refuses when this user cannot get to `wanted` (all links resolved) because of a folder above it.
    pub(super) fn can_reach(&self, wanted: &Path, remedy: &'static str) -> Result<(), Refusal> {
        match self.closed_folder(wanted) {
            None => Ok(()),
            Some(closed) => {
                Err(Refusal::Closed { user: self.name.clone(), closed, wanted: wanted.to_owned(), remedy })
            }
        }
    }

    /// Lets this user pass through the data directory, which root may have made for itself alone (as `mktemp -d`
    /// does). What lies in it keeps its own mode.
    pub(super) fn open_way_through(&self, data_dir: &Path) -> Result<(), Refusal> {
        let meta = fs::metadata(data_dir).map_err(Refusal::io("read", data_dir))?;
        if !self.drops || self.may_enter(&meta) {
            return Ok(());
        }
        let mode = Permissions::from_mode(meta.mode() & 0o7777 | 0o011);
        fs::set_permissions(data_dir, mode).map_err(Refusal::io("open for PostgreSQL's user", data_dir))
    }

    fn closed_folder(&self, wanted: &Path) -> Option<PathBuf> {
        let closed = |folder: &&Path| fs::metadata(folder).is_ok_and(|meta| !self.may_enter(&meta));
        if !self.drops {
            return None;
        }
        wanted.ancestors().filter(closed).last().map(Path::to_owned)
    }

    fn may_enter(&self, meta: &Metadata) -> bool {
        let bit = match (meta.uid() == self.uid, meta.gid() == self.gid) {
            (true, _) => 0o100,
            (false, true) => 0o010,
            (false, false) => 0o001,
        };
        meta.mode() & bit != 0
    }
}
