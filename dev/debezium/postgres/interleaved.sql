-- Transactions of several sessions, open at the same time. PostgreSQL decodes each one when it commits.
create table accounts (id int primary key, balance int);
create table entries (id int primary key, account int, amount int);
insert into accounts select n, 100 from generate_series(1, 6) n;
-- STREAM
-- SESSION a
begin;
update accounts set balance = balance - 10 where id = 1;
-- SESSION b
begin;
update accounts set balance = balance - 20 where id = 3;
-- SESSION c
begin;
insert into entries values (1, 5, 7);
-- SESSION a
update accounts set balance = balance + 10 where id = 2;
insert into entries values (2, 1, -10), (3, 2, 10);
-- SESSION b
update accounts set balance = balance + 20 where id = 4;
commit;
-- SESSION a
commit;
-- SESSION c
update accounts set balance = balance + 7 where id = 5;
rollback;
-- SESSION b
begin;
delete from entries where id = 2;
-- SESSION a
insert into entries values (4, 6, 1);
-- SESSION b
delete from accounts where id = 6;
commit;
