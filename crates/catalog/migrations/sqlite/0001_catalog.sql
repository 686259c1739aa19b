create table kind (id integer primary key, name text not null unique);
create table reason (id integer primary key, text text not null unique);
create table skeleton (id integer primary key, hash text not null unique, text text not null);

create table file (
    id integer primary key,
    name text not null unique,
    generation text not null,
    bucket text not null,
    kind bigint not null,
    file_sha1 text not null,
    text_sha1 text not null,
    file_size bigint not null,
    text_size bigint not null,
    rules_hash text not null,
    reports bigint not null,
    measurements bigint not null,
    badblobs bigint not null,
    ingested_ms bigint not null
);
create index file_bucket on file (bucket, name);

create table feature (
    id integer primary key,
    name text not null unique,
    version bigint not null,
    min_compatible bigint not null,
    columns text not null
);
create table file_feature (
    file bigint not null,
    feature bigint not null,
    version bigint not null,
    primary key (file, feature)
) without rowid;
create table aggregate (
    id integer primary key,
    name text not null unique,
    version bigint not null,
    columns text not null,
    query text not null
);

create table report (
    id integer primary key,
    file bigint not null,
    seq bigint not null,
    textname text not null,
    src_size bigint not null,
    unique (file, seq)
);
create index report_textname on report (textname);

create table measurement (
    id integer primary key,
    uid text not null unique,
    file bigint not null,
    report bigint not null,
    seq bigint not null,
    frame_off bigint not null,
    frame_size bigint not null,
    intra_off bigint not null,
    intra_size bigint not null,
    time_ms bigint,
    date text,
    kind bigint not null
);
create index measurement_file on measurement (file, id);
create index measurement_report on measurement (report, id);
create index measurement_time on measurement (coalesce(time_ms, 0), id);
create index measurement_date on measurement (date, id);

create table duplicate (
    file bigint not null,
    seq bigint not null,
    uid text not null,
    report bigint not null,
    frame_off bigint not null,
    frame_size bigint not null,
    intra_off bigint not null,
    intra_size bigint not null,
    time_ms bigint,
    date text,
    kind bigint not null,
    primary key (file, seq)
) without rowid;
create index duplicate_uid on duplicate (uid);

create table badblob (
    id integer primary key,
    file bigint not null,
    seq bigint not null,
    report bigint not null,
    src_off bigint not null,
    src_size bigint not null,
    reason bigint not null,
    unique (file, seq)
);

create table badrow (
    id integer primary key,
    file bigint not null,
    feature bigint not null,
    seq bigint not null,
    "row" bigint not null,
    uid text not null,
    reason bigint not null,
    data text not null
);
create index badrow_file on badrow (file, feature, seq);
create index badrow_uid on badrow (uid);

create table residual (
    file bigint not null,
    skeleton bigint not null,
    count bigint not null,
    primary key (file, skeleton)
) without rowid;

create table coverage (
    subject text not null,
    name text not null,
    hour text not null,
    expected bigint not null,
    present bigint not null,
    bytes bigint not null,
    primary key (subject, name, hour)
) without rowid;
