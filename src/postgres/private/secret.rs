//! The pod's own secret, kept in the data directory: made once, read ever after.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The secret key of a data directory: 32 random bytes in `secret.key`, as base64, readable by its owner only.
/// Made at the first call; of two at once both get the same one.
///
/// # Errors
/// When the file cannot be read or made, or holds something else (`InvalidData`).
pub fn secret_key(data_dir: &Path) -> io::Result<[u8; 32]> {
    if let Some(key) = existing_secret_key(data_dir)? {
        return Ok(key);
    }
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    let draft = data_dir.join(format!("secret.key.{}-{:02x}{:02x}", std::process::id(), key[0], key[1]));
    let placed = place(&draft, &data_dir.join("secret.key"), &STANDARD.encode(key));
    let _ = fs::remove_file(&draft);
    placed?;
    // Whoever came first has won, so the answer is what the file says.
    existing_secret_key(data_dir)?.ok_or_else(|| io::Error::other("secret.key vanished while it was made"))
}

/// The secret key of a data directory that has one; `None` when there is no such file.
///
/// # Errors
/// When the file cannot be read or does not hold 32 bytes as base64 (`InvalidData`).
pub fn existing_secret_key(data_dir: &Path) -> io::Result<Option<[u8; 32]>> {
    let text = match fs::read_to_string(data_dir.join("secret.key")) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let key = STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok());
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "secret.key does not hold 32 bytes as base64");
    key.map(Some).ok_or_else(wrong)
}

/// Writes the draft and gives it its name whole, unless that name is taken already.
fn place(draft: &Path, name: &Path, text: &str) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(draft)?;
    writeln!(file, "{text}")?;
    file.sync_all()?;
    match fs::hard_link(draft, name) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // Some shared folders know no hard links; there the data directory's lock has to do.
        Err(_) => fs::rename(draft, name),
        Ok(()) => Ok(()),
    }?;
    name.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_key_is_made_once_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(existing_secret_key(dir.path()).unwrap(), None);
        let key = secret_key(dir.path()).unwrap();
        assert_eq!(secret_key(dir.path()).unwrap(), key);
        assert_eq!(existing_secret_key(dir.path()).unwrap(), Some(key));
        let mode = fs::metadata(dir.path().join("secret.key")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no draft stays behind");
    }

    #[test]
    fn racing_makers_agree_on_one_key() {
        let dir = tempfile::tempdir().unwrap();
        let make = || secret_key(dir.path()).unwrap();
        let keys = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
    }

    #[test]
    fn a_damaged_key_file_is_an_error_and_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("secret.key"), "c2hvcnQ=\n").unwrap();
        assert_eq!(secret_key(dir.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(fs::read_to_string(dir.path().join("secret.key")).unwrap(), "c2hvcnQ=\n");
    }
}
