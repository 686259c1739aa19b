alter table account add column is_recorded boolean not null default false;
alter table account add column is_removal_recorded boolean not null default false;
alter table account add column is_emptied boolean not null default false;

create table object_rebuild (
    id bigint primary key check (id = 1),
    attempt text collate "C" not null
);

create table object_staged (
    account text collate "C" not null,
    parent text collate "C" not null,
    name text collate "C" not null,
    version bigint not null,
    attempt text collate "C" not null,
    is_directory boolean not null,
    mtime_us bigint not null,
    etag text collate "C",
    bytes bigint,
    md5 text collate "C",
    sha256 text collate "C",
    data text collate "C",
    data_offset bigint,
    headers text collate "C",
    is_deleted boolean not null,
    primary key (account, parent, name)
);
