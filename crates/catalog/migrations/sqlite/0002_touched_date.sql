create table touched_date (date text not null primary key) without rowid;
