-- The first 64 bits of the SHA-256 of the text in the archive; null for what was loaded before there was one.
alter table measurement add column digest bigint;
alter table duplicate add column digest bigint;
