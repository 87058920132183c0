//! Why a call failed, in words that quote nobody.

/// What a failure was, for the log and the operator. Database errors can quote values of the caller:
/// only their code and constraint are said.
pub fn plain(cause: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    match cause.downcast_ref::<sqlx::Error>() {
        Some(sqlx::Error::Database(refused)) => {
            format!(
                "SQLSTATE {}, {}",
                refused.code().unwrap_or_default(),
                refused.constraint().unwrap_or("no constraint")
            )
        }
        Some(other) => other.to_string(),
        None => cause.to_string(),
    }
}

/// The same of an error as calls meet it.
pub fn of(error: &super::Error) -> String {
    match error {
        super::Error::Internal(cause) | super::Error::Unavailable { source: cause, .. } => plain(&**cause),
        refused => refused.to_string(),
    }
}
