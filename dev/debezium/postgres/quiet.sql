-- Heartbeats, between changes and after them.
create table customers (id int primary key, name text);
-- STREAM
insert into customers values (1, 'ann');
-- SLEEP 1
insert into customers values (2, 'bob');
-- SLEEP 1
