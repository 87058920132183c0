//! Postgres as the pod sees it: the pool, the schema, and the private cluster that
//! stands in when no `DATABASE_URL` is given.

pub mod pool;
pub mod private;
pub mod programs;
pub mod schema;
pub(crate) mod transaction;
