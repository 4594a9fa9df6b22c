-- The shop of the first tutorial: orders and customers, a note that Postgres stores apart (TOAST), then a new column.
create table customers (id bigint primary key, name text, city text);
create table orders (id bigint primary key, customer_id bigint, amount numeric(10, 2), note text);
alter table orders alter column note set storage external;
insert into customers values (1, 'Ann', 'Oslo'), (2, 'Bob', 'Rome');
insert into orders values (10, 1, 12.50, null), (11, 2, 5.00, null), (12, 1, 80.00, repeat('fragile ', 260));
-- STREAM
insert into orders values (13, 2, 20.00, null);
update customers set city = 'Bergen' where id = 1;
delete from orders where id = 11;
update orders set amount = 75.00 where id = 12;
alter table customers add column tier text;
update customers set tier = 'gold' where id = 1;
insert into customers values (3, 'Cid', 'Bern', 'silver');
insert into orders values (14, 3, 9.90, null);
