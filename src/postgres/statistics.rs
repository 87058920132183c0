//! Statistics for the planner, while tables grow faster than autovacuum looks at them.
//!
//! Two indexes that begin with the same columns cost the same while nothing is known of a table, and then the younger
//! one wins, whichever rows it reads through. Plans here are kept, foreign key checks included, until statistics come;
//! autovacuum looks once a minute at best, and by then a young table may hold a hundred thousand rows.

use sqlx::{AssertSqlSafe, PgConnection};

/// Analyzes every table that has more than doubled since it was last looked at, and gives how many.
///
/// Each is looked at some twenty times on its way to a terabyte, and never when it does not grow.
pub async fn follow_growth(db: &mut PgConnection) -> sqlx::Result<usize> {
    let grown: Vec<String> = sqlx::query_scalar(
        "-- postgres.grown_tables
         select c.oid::regclass::text from pg_class c
         where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace
           and pg_relation_size(c.oid) / current_setting('block_size')::bigint > 2 * c.relpages + 2",
    )
    .fetch_all(&mut *db)
    .await?;
    for table in &grown {
        // The name comes from the catalogue, quoted where it must be.
        let analyze = format!("-- postgres.analyze\n analyze {table}");
        sqlx::raw_sql(AssertSqlSafe(analyze)).execute(&mut *db).await?;
    }
    Ok(grown.len())
}
