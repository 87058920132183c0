//! The tests that need a real PostgreSQL.

#[cfg(test)]
mod private_cluster;
