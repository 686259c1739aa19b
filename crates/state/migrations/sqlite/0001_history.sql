create table session (
    id text primary key,
    worker text not null,
    started_ms bigint not null,
    heard_ms bigint not null,
    ended_ms bigint
);

create table execution (
    session text not null,
    number bigint not null,
    stage text not null,
    key text not null,
    bucket text,
    kind text,
    slice text,
    attempt bigint not null,
    worker text not null,
    started_ms bigint not null,
    ended_ms bigint,
    bytes_in bigint not null,
    bytes_out bigint not null,
    result text not null,
    reason text,
    report text,
    primary key (session, number)
);
create index execution_started on execution (started_ms, session, number);
create index execution_stage on execution (stage, started_ms, session, number);
create index execution_bucket on execution (bucket, stage, started_ms, session, number);
create index execution_running on execution (started_ms) where result = 'running';
