-- Tables and columns whose names a topic or a field of Avro cannot have.
create table `my table` (id int primary key, n int);
create table `größe` (id int primary key, n int);
create table `a$b` (id int primary key, n int);
create table `Mixed.Case-x` (id int primary key, `with space` text, `ä` text, `1st` int, `a-b` int);
insert into `my table` values (0, 0);
-- STREAM
begin;
insert into `my table` values (1, 1), (2, 2);
insert into `größe` values (1, 1);
insert into `a$b` values (1, 1);
insert into `Mixed.Case-x` values (1, 'b', 'c', 4, 5);
commit;
update `my table` set n = 3 where id = 1;
