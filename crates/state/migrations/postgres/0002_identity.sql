create table account (
    id text collate "C" primary key,
    name text collate "C" not null,
    bytes_max bigint,
    created_ms bigint not null,
    removed_ms bigint
);
create unique index account_name on account (name) where removed_ms is null;

create table account_key (
    account text collate "C" not null,
    fingerprint text collate "C" not null,
    public_key text collate "C" not null,
    comment text collate "C" not null,
    added_ms bigint not null,
    primary key (account, fingerprint)
);

create table token (
    id text collate "C" primary key,
    account text collate "C" not null,
    secret_sha256 text collate "C" not null,
    scopes text collate "C" not null,
    created_ms bigint not null,
    expires_ms bigint,
    revoked_ms bigint
);
create index token_account on token (account, created_ms, id);
