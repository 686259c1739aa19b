create table object (
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
    primary key (account, parent, name)
);
create index object_mtime on object (account, parent, mtime_us, name);
create index object_subdirectory on object (account, parent, name) where is_directory;
create index object_subdirectory_mtime on object (account, parent, mtime_us, name) where is_directory;
create index object_data on object (data) where data is not null;

create table object_directory (
    account text collate "C" not null,
    path text collate "C" not null,
    children bigint not null,
    primary key (account, path)
);

create table object_usage (
    account text collate "C" primary key,
    bytes bigint not null
);

create table object_counter (
    id bigint primary key check (id = 1),
    version bigint not null
);
insert into object_counter (id, version) values (1, 0);

create table object_outbox (
    version bigint primary key,
    attempt text collate "C" not null,
    line text collate "C" not null
);

create table object_garbage (
    data text collate "C" primary key,
    since_ms bigint not null,
    is_doomed boolean not null
);
create index object_garbage_since on object_garbage (since_ms, data);
