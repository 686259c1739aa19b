create table account (
    id text primary key,
    name text not null,
    bytes_max bigint,
    created_ms bigint not null,
    removed_ms bigint
);
create unique index account_name on account (name) where removed_ms is null;

create table account_key (
    account text not null,
    fingerprint text not null,
    public_key text not null,
    comment text not null,
    added_ms bigint not null,
    primary key (account, fingerprint)
);

create table token (
    id text primary key,
    account text not null,
    secret_sha256 text not null,
    scopes text not null,
    created_ms bigint not null,
    expires_ms bigint,
    revoked_ms bigint
);
create index token_account on token (account, created_ms, id);
