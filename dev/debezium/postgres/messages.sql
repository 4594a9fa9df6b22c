-- Messages of logical decoding, inside and outside of a transaction, and tables that are not read.
create table customers (id int primary key, name text);
-- STREAM
begin;
insert into customers values (1, 'ann');
select pg_logical_emit_message(true, 'prefix', 'in a transaction');
commit;
select pg_logical_emit_message(false, 'prefix', 'outside');
