alter table object_counter add column database_id text;
