create table touched_date (date text collate "C" not null primary key);
