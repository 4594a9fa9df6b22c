-- Truncates, of one table, of several at once, and one that cascades.
create table customers (id int primary key, name text);
create table orders (id int primary key, customer int references customers);
create table other (id int primary key);
insert into customers values (1, 'ann');
insert into orders values (1, 1);
-- STREAM
insert into other values (1);
truncate other;
begin;
insert into customers values (2, 'bob');
truncate customers cascade;
insert into customers values (3, 'cid');
commit;
