-- Webhooks: who is told of mail, where, and how far. And where an organization lets requests go.

create table egress_policy (
    org_id uuid primary key references organization,
    hosts text[] not null check (array_position(hosts, null) is null),
    set_at timestamptz not null default clock_timestamp()
);
comment on table egress_policy is 'Hosts that requests of an organization may go to, *.example.com for all below one. No row: every public host.';

create table webhook (
    org_id uuid not null,
    agent_id uuid not null,
    url text not null,
    authority text not null,
    sealed_secret bytea not null,
    challenge text not null,
    activation uuid not null,
    state text not null default 'pending' check (state in ('pending', 'active', 'failing', 'disabled')),
    verified_at timestamptz,
    announced_seq bigint not null default 0,
    due_at timestamptz,
    traceparent text check (char_length(traceparent) = 55),
    failures integer not null default 0 check (failures >= 0),
    failing_since timestamptz check ((failing_since is not null) = (state = 'failing')),
    last_failure_at timestamptz,
    last_failure_reason text check ((last_failure_reason is null) = (last_failure_at is null)),
    lease uuid,
    lease_until timestamptz check ((lease is null) = (lease_until is null)),
    created_at timestamptz not null default clock_timestamp(),
    primary key (org_id, agent_id),
    foreign key (org_id, agent_id) references agent on delete cascade
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
create index webhook_due on webhook (due_at) where due_at is not null;
comment on table webhook is 'Where an agent is told of its mail. What is stored in a mailbox makes an active row due in the same transaction.';
comment on column webhook.authority is 'Host and port of url: what a pod bounds its calls by.';
comment on column webhook.activation is 'Changes with each registration and each activation: what was judged of an earlier one says nothing of this.';
comment on column webhook.announced_seq is 'Mail up to here was told of.';
comment on column webhook.due_at is 'When to call: to verify while pending, to tell of mail beyond announced_seq after that. Null = nothing to do.';
comment on column webhook.traceparent is 'The trace that the newest message of the mailbox is part of, handed on with the notice.';
comment on column webhook.lease is 'The one call under way; whoever holds another lease changes nothing.';
