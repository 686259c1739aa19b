alter table account add column is_recorded boolean not null default false;
alter table account add column is_removal_recorded boolean not null default false;
alter table account add column is_emptied boolean not null default false;

create table object_rebuild (
    id bigint primary key check (id = 1),
    attempt text not null
);

create table object_staged (
    account text not null,
    parent text not null,
    name text not null,
    version bigint not null,
    attempt text not null,
    is_directory boolean not null,
    mtime_us bigint not null,
    etag text,
    bytes bigint,
    md5 text,
    sha256 text,
    data text,
    data_offset bigint,
    headers text,
    is_deleted boolean not null,
    primary key (account, parent, name)
);
