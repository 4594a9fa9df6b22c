-- Schema changes while it streams: columns added, widened, renamed, dropped, another key.
create table customers (id int primary key, name varchar(10), age smallint);
insert into customers values (1, 'ann', 30);
-- STREAM
insert into customers values (2, 'bob', 31);
alter table customers add column city text;
insert into customers values (3, 'cid', 32, 'Oslo');
alter table customers add column vip boolean not null default true;
update customers set age = 33 where id = 3;
alter table customers alter column age type bigint, alter column name type text;
insert into customers values (4, 'a name of more than ten letters', 3000000000, 'Rome');
alter table customers rename column city to town;
insert into customers values (5, 'eve', 34, 'Bern');
alter table customers drop column age;
update customers set town = 'Basel' where id = 5;
alter table customers drop constraint customers_pkey, add primary key (id, name);
insert into customers values (6, 'fay', 'Nice');
delete from customers where id = 6;
