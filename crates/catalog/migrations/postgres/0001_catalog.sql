create table kind (id bigint generated always as identity primary key, name text collate "C" not null unique);
create table reason (id bigint generated always as identity primary key, text text collate "C" not null unique);
create table skeleton (id bigint generated always as identity primary key, hash text collate "C" not null unique, text text collate "C" not null);

create table file (
    id bigint generated always as identity primary key,
    name text collate "C" not null unique,
    generation text collate "C" not null,
    bucket text collate "C" not null,
    kind bigint not null,
    file_sha1 text collate "C" not null,
    text_sha1 text collate "C" not null,
    file_size bigint not null,
    text_size bigint not null,
    rules_hash text collate "C" not null,
    reports bigint not null,
    measurements bigint not null,
    badblobs bigint not null,
    ingested_ms bigint not null
);
create index file_bucket on file (bucket, name);

create table feature (
    id bigint generated always as identity primary key,
    name text collate "C" not null unique,
    version bigint not null,
    min_compatible bigint not null,
    columns text collate "C" not null
);
create table file_feature (
    file bigint not null,
    feature bigint not null,
    version bigint not null,
    primary key (file, feature)
);
create table aggregate (
    id bigint generated always as identity primary key,
    name text collate "C" not null unique,
    version bigint not null,
    columns text collate "C" not null,
    query text collate "C" not null
);

create table report (
    id bigint generated always as identity primary key,
    file bigint not null,
    seq bigint not null,
    textname text collate "C" not null,
    src_size bigint not null,
    unique (file, seq)
);
create index report_textname on report (textname);

create table measurement (
    id bigint generated always as identity primary key,
    uid text collate "C" not null unique,
    file bigint not null,
    report bigint not null,
    seq bigint not null,
    frame_off bigint not null,
    frame_size bigint not null,
    intra_off bigint not null,
    intra_size bigint not null,
    time_ms bigint,
    date text collate "C",
    kind bigint not null
);
create index measurement_file on measurement (file, id);
create index measurement_report on measurement (report, id);
create index measurement_time on measurement (coalesce(time_ms, 0), id);
create index measurement_date on measurement (date, id);

create table duplicate (
    file bigint not null,
    seq bigint not null,
    uid text collate "C" not null,
    report bigint not null,
    frame_off bigint not null,
    frame_size bigint not null,
    intra_off bigint not null,
    intra_size bigint not null,
    time_ms bigint,
    date text collate "C",
    kind bigint not null,
    primary key (file, seq)
);
create index duplicate_uid on duplicate (uid);

create table badblob (
    id bigint generated always as identity primary key,
    file bigint not null,
    seq bigint not null,
    report bigint not null,
    src_off bigint not null,
    src_size bigint not null,
    reason bigint not null,
    unique (file, seq)
);

create table badrow (
    id bigint generated always as identity primary key,
    file bigint not null,
    feature bigint not null,
    seq bigint not null,
    "row" bigint not null,
    uid text collate "C" not null,
    reason bigint not null,
    data text collate "C" not null
);
create index badrow_file on badrow (file, feature, seq);
create index badrow_uid on badrow (uid);

create table residual (
    file bigint not null,
    skeleton bigint not null,
    count bigint not null,
    primary key (file, skeleton)
);

create table coverage (
    subject text collate "C" not null,
    name text collate "C" not null,
    hour text collate "C" not null,
    expected bigint not null,
    present bigint not null,
    bytes bigint not null,
    primary key (subject, name, hour)
);
