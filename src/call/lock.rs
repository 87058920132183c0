//! Advisory locks for things that have no row to lock yet.

use sha2::{Digest, Sha256};
use sqlx::PgConnection;

use super::Result;

/// Waits until this transaction alone holds `thing`; the transaction's end gives it free.
///
/// A statement of its own, so that the next statement's snapshot is newer than
/// the lock. Things are named by their `kind` and the parts of their key.
pub async fn hold(db: &mut PgConnection, kind: &'static str, key: &[&[u8]]) -> Result<()> {
    sqlx::query("-- lock.hold\n select pg_advisory_xact_lock($1)")
        .bind(number(kind, key))
        .execute(db)
        .await?;
    Ok(())
}

fn number(kind: &str, key: &[&[u8]]) -> i64 {
    let mut digest = Sha256::new_with_prefix(kind);
    for part in key {
        digest.update([0]);
        digest.update(part);
    }
    let digest: [u8; 32] = digest.finalize().into();
    i64::from_be_bytes([
        digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6], digest[7],
    ])
}
