-- Which node sent a report, and the hour in which it began to collect it; null for what is no bundle.
alter table report add column node text collate "C";
alter table report add column hour text collate "C";
create index report_node on report (node, hour) where node is not null;

-- known, unknown, deleted, or absent: there is nothing, although there was before and is again afterwards.
alter table coverage add column state text collate "C" not null default 'known';
