//! Postgres as the pod sees it: where the server programs are, and the private cluster
//! that stands in when no `DATABASE_URL` is given.

pub mod private;
pub mod programs;
