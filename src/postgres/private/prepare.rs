//! What has to be in place before the server can start.

use std::fs::File;

use super::folder::Folder;
use super::owner::Owner;
use super::refusal::Refusal;
use super::{Settings, initdb, postmaster};
use crate::postgres::programs::{self, Programs};

/// Everything is in place to start the server: the lock taken, the cluster made, nobody left on it.
pub(super) struct Prepared {
    pub(super) folder: Folder,
    pub(super) programs: Programs,
    pub(super) owner: Owner,
    pub(super) lock: File,
}

impl Prepared {
    /// Puts everything in place. Blocks for seconds when the cluster has to be made.
    pub(super) fn new(settings: &Settings) -> Result<Self, Refusal> {
        let folder = Folder::open(&settings.data_dir)?;
        let lock = folder.lock()?;
        let pgdata = folder.pgdata();
        let major = initdb::major_of_cluster(&pgdata)?;
        let programs = programs::find(settings.programs.as_deref(), settings.search_path.as_deref(), major)?;
        let owner = Owner::choose(&pgdata)?;
        owner.open_way_through(folder.path())?;
        owner.can_reach(folder.path(), "set WAYPOST_DATA_DIR to a folder such as /var/lib/waypost")?;
        owner.can_reach(&programs.bin, "set WAYPOST_PG_BIN to server programs that every user may run")?;
        if major.is_some() {
            postmaster::end_leftover(&pgdata)?;
            owner.take_over(&pgdata).map_err(Refusal::io("give to its user", &pgdata))?;
            owner.private_folder(&pgdata)?;
        } else {
            initdb::make_cluster(&folder, &programs, &owner)?;
        }
        folder.remove_stale_socket();
        owner.private_folder(&folder.run())?;
        Ok(Self { folder, programs, owner, lock })
    }
}
