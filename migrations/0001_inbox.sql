-- The house: organizations, owners, agents and their credentials, mailboxes,
-- messages and inbox entries, claims, idempotency keys.
-- Every primary key starts with org_id (but the look-up of a credential by its hash,
-- which finds the organization, and the count of registrations per network).
-- Other indexes, unique ones too, begin with the column that selects: one that began
-- with org_id as well would be taken for the key while nothing is known of the table,
-- foreign key checks included, and plans are kept. inbox_entry_unacked begins with org_id
-- on purpose: it is the key, of the unacked rows only, for what reads a whole mailbox. A
-- look-up of a row by its key does not ask for unacked rows beside it, so it is not taken.

create table organization (
    org_id uuid primary key,
    slug text not null unique check (slug ~ '^[a-z][a-z0-9-]{0,62}$'),
    registration text not null default 'open' check (registration in ('open', 'closed')),
    created_at timestamptz not null default now()
);
comment on table organization is 'A tenant. The default one is "public".';

create table owner (
    org_id uuid not null references organization,
    owner_id uuid not null,
    contact_uri text,
    created_at timestamptz not null default now(),
    primary key (org_id, owner_id)
);
comment on table owner is 'Who answers for agents: holds the owner key, adds and revokes agent keys.';

create table agent (
    org_id uuid not null,
    agent_id uuid not null,
    owner_id uuid not null,
    name text not null check (char_length(name) between 1 and 80),
    name_folded text not null,
    profile json not null default '{}',
    inbound text not null default 'open' check (inbound in ('open', 'known', 'none')),
    verified_at timestamptz,
    on_trial boolean not null default true,
    created_at timestamptz not null default now(),
    primary key (org_id, agent_id),
    foreign key (org_id, owner_id) references owner
);
create index agent_by_name on agent (name_folded, org_id);
create index agent_by_owner on agent (owner_id, created_at, agent_id, org_id);
create index agent_on_trial on agent (created_at) where on_trial;
comment on table agent is 'An identity that sends and receives. profile is what it declared at registration.';
comment on column agent.on_trial is 'Not judged yet: 24 hours after registration a chore keeps it for good if it has polled, or removes it.';

create table credential (
    key_hash bytea primary key check (octet_length(key_hash) = 32),
    org_id uuid not null,
    credential_id uuid not null,
    kind text not null check (kind in ('agent', 'owner')),
    owner_id uuid not null,
    agent_id uuid check ((agent_id is null) = (kind = 'owner')),
    shown_prefix text not null,
    created_at timestamptz not null default now(),
    revoked_at timestamptz,
    unique (credential_id),
    foreign key (org_id, owner_id) references owner,
    foreign key (org_id, agent_id) references agent on delete cascade
);
create index credential_by_agent on credential (agent_id, org_id);
create index credential_by_owner on credential (owner_id, org_id);
comment on table credential is 'A key, known only by its SHA-256. An agent key is a session: credential_id is the session id.';

create table registration (
    network cidr not null,
    registered_at timestamptz not null default clock_timestamp(),
    registration_id uuid not null,
    org_id uuid not null references organization,
    channel text,
    primary key (network, registered_at, registration_id)
);
comment on table registration is 'One row per registration and client network: the limit is counted here, across pods.';

create table mailbox (
    org_id uuid not null,
    agent_id uuid not null,
    last_seq bigint not null default 0,
    open integer not null default 0 check (open >= 0),
    counted integer not null default 0 check (counted >= 0),
    ack_wanted integer not null default 0 check (ack_wanted >= 0),
    acked_total bigint not null default 0,
    guarded boolean not null default false,
    hooked boolean not null default false,
    primary key (org_id, agent_id),
    foreign key (org_id, agent_id) references agent on delete cascade
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01);
comment on table mailbox is 'One narrow row per agent. Its lock orders what enters the mailbox: seq order is commit order.';
comment on column mailbox.open is 'Entries not acked.';
comment on column mailbox.counted is 'Entries not acked that count against the caps: mail from peers, not notices or replies.';
comment on column mailbox.ack_wanted is 'Entries not acked whose sender asked for an ack.';
comment on column mailbox.guarded is 'Not everybody may write to it: its agent has a policy, or blocks somebody, or did. Kept here, so that posting reads one row.';
comment on column mailbox.hooked is 'Its agent has a webhook, or had one.';

create table message (
    org_id uuid not null,
    message_id uuid not null,
    sender_agent_id uuid,
    sender_name text not null,
    recipient_agent_id uuid,
    message_type text not null,
    body text not null,
    parts json,
    thread_id uuid,
    in_reply_to uuid,
    ack_requested boolean not null default false,
    ack_deadline timestamptz,
    probe_nonce text,
    created_at timestamptz not null,
    primary key (org_id, message_id)
);
create index message_by_pair on message (sender_agent_id, recipient_agent_id, org_id);
comment on column message.parts is 'json, not jsonb: kept as written, since jsonb writes 1e308 out in 309 digits.';
comment on table message is 'Canonical and immutable. A sender_agent_id of null is the platform itself.';

create table inbox_entry (
    org_id uuid not null,
    agent_id uuid not null,
    seq bigint not null,
    message_id uuid not null,
    sender_agent_id uuid,
    counted boolean not null,
    ack_requested boolean not null,
    lease_run uuid,
    lease_until timestamptz check ((lease_run is null) = (lease_until is null)),
    acked_at timestamptz,
    ack_body json,
    primary key (org_id, agent_id, seq),
    unique (message_id, agent_id, org_id)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02);
create index inbox_entry_unacked on inbox_entry (org_id, agent_id, seq) where acked_at is null;
comment on table inbox_entry is 'One row per recipient and message: its place in the mailbox, its lease and its ack. Without foreign keys, which cost a sixth of a send: entries are written with their message, in one statement under the lock of their mailbox, and removed with both by who holds it.';
comment on column inbox_entry.lease_until is 'Judged by clock_timestamp(), never indexed: claims stay heap-only updates.';

create table claim_run (
    org_id uuid not null,
    agent_id uuid not null,
    run_id uuid not null,
    lease_until timestamptz not null,
    seqs bigint[] not null,
    held integer not null check (held >= 0),
    primary key (org_id, agent_id, run_id),
    foreign key (org_id, agent_id) references mailbox on delete cascade
) with (fillfactor = 60);
comment on table claim_run is 'What a run leased last: seqs to serve again, held = how many of them are not acked yet.';

create table poll (
    org_id uuid not null,
    agent_id uuid not null,
    first_polled_at timestamptz not null,
    last_polled_at timestamptz not null,
    polled_hour bigint not null,
    hours bit(24) not null,
    primary key (org_id, agent_id),
    foreign key (org_id, agent_id) references agent on delete cascade
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
comment on table poll is 'Liveness: the last authenticated poll, and in which of the 24 hours up to polled_hour there was one (leftmost bit = polled_hour). Apart from mailbox, so that readers and senders do not wait for each other.';

create table inbound_block (
    org_id uuid not null,
    agent_id uuid not null,
    sender_agent_id uuid not null,
    created_at timestamptz not null default now(),
    primary key (org_id, agent_id, sender_agent_id),
    foreign key (org_id, agent_id) references agent on delete cascade,
    foreign key (org_id, sender_agent_id) references agent on delete cascade
);
create index inbound_block_by_sender on inbound_block (sender_agent_id, org_id);
comment on table inbound_block is 'Senders that an agent takes no mail from.';

create table idempotency (
    org_id uuid not null,
    agent_id uuid not null,
    namespace text not null,
    key text not null,
    fingerprint bytea not null check (octet_length(fingerprint) = 32),
    answer text not null,
    created_at timestamptz not null default clock_timestamp(),
    primary key (org_id, agent_id, namespace, key)
);
create index idempotency_by_age on idempotency (created_at);
comment on table idempotency is 'Keys of calls that succeeded, with their first answer, JSON as it was written. Written in the transaction of the effect. Without a foreign key, for the cost: one that an agent leaves behind is forgotten by its age.';

create table deployment (
    only_row boolean primary key default true check (only_row),
    secret_check bytea
);
comment on table deployment is 'What all pods on this database must share: a check value of WAYPOST_SECRET_KEY.';
insert into deployment default values;

insert into organization (org_id, slug) values ('00000000-0000-7000-8000-000000000001', 'public');
