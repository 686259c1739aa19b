-- A row stands where its path is looked up, and not once more beside an index of paths: half of the pages of a put are left.
create table object_by_path (
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
) without rowid;
insert into object_by_path (account, parent, name, version, attempt, is_directory, mtime_us, etag, bytes, md5, sha256, data, data_offset, headers)
    select account, parent, name, version, attempt, is_directory, mtime_us, etag, bytes, md5, sha256, data, data_offset, headers
    from object order by account, parent, name;
drop table object;
alter table object_by_path rename to object;
create index object_mtime on object (account, parent, mtime_us, name);
create index object_subdirectory on object (account, parent, name) where is_directory;
create index object_subdirectory_mtime on object (account, parent, mtime_us, name) where is_directory;
create index object_data on object (data) where data is not null;

create table object_directory_by_path (
    account text not null,
    path text not null,
    children bigint not null,
    primary key (account, path)
) without rowid;
insert into object_directory_by_path (account, path, children)
    select account, path, children from object_directory order by account, path;
drop table object_directory;
alter table object_directory_by_path rename to object_directory;

create table object_usage_by_account (
    account text primary key not null,
    bytes bigint not null
) without rowid;
insert into object_usage_by_account (account, bytes) select account, bytes from object_usage;
drop table object_usage;
alter table object_usage_by_account rename to object_usage;

create table object_outbox_by_version (
    version bigint primary key not null,
    attempt text not null,
    line text not null
) without rowid;
insert into object_outbox_by_version (version, attempt, line) select version, attempt, line from object_outbox;
drop table object_outbox;
alter table object_outbox_by_version rename to object_outbox;

create table object_garbage_by_data (
    data text primary key not null,
    since_ms bigint not null,
    is_doomed boolean not null
) without rowid;
insert into object_garbage_by_data (data, since_ms, is_doomed) select data, since_ms, is_doomed from object_garbage;
drop table object_garbage;
alter table object_garbage_by_data rename to object_garbage;
create index object_garbage_since on object_garbage (since_ms, data);
