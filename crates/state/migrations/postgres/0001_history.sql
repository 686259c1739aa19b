create table session (
    id text collate "C" primary key,
    worker text collate "C" not null,
    started_ms bigint not null,
    heard_ms bigint not null,
    ended_ms bigint
);

create table execution (
    session text collate "C" not null,
    number bigint not null,
    stage text collate "C" not null,
    key text collate "C" not null,
    bucket text collate "C",
    kind text collate "C",
    slice text collate "C",
    attempt bigint not null,
    worker text collate "C" not null,
    started_ms bigint not null,
    ended_ms bigint,
    bytes_in bigint not null,
    bytes_out bigint not null,
    result text collate "C" not null,
    reason text collate "C",
    report json,
    primary key (session, number)
);
create index execution_started on execution (started_ms, session, number);
create index execution_stage on execution (stage, started_ms, session, number);
create index execution_bucket on execution (bucket, stage, started_ms, session, number);
create index execution_running on execution (started_ms) where result = 'running';
