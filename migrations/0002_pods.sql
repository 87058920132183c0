-- The pods that serve now, of the whole deployment, not of an organization. Limits that each pod counts in its own memory are shared among them.

create table live_pod (
    pod_id uuid primary key,
    seen_at timestamptz not null default clock_timestamp()
) with (fillfactor = 50);
comment on table live_pod is 'One row per pod, stamped every few seconds for as long as it serves. seen_at is never indexed: stamps stay heap-only updates.';
