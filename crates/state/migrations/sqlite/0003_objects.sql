create table object (
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
    primary key (account, parent, name)
);
create index object_mtime on object (account, parent, mtime_us, name);
create index object_subdirectory on object (account, parent, name) where is_directory;
create index object_subdirectory_mtime on object (account, parent, mtime_us, name) where is_directory;
create index object_data on object (data) where data is not null;

create table object_directory (
    account text not null,
    path text not null,
    children bigint not null,
    primary key (account, path)
);

create table object_usage (
    account text primary key,
    bytes bigint not null
);

create table object_counter (
    id bigint primary key check (id = 1),
    version bigint not null
);
insert into object_counter (id, version) values (1, 0);

create table object_outbox (
    version bigint primary key,
    attempt text not null,
    line text not null
);

create table object_garbage (
    data text primary key,
    since_ms bigint not null,
    is_doomed boolean not null
);
create index object_garbage_since on object_garbage (since_ms, data);
