-- Every column type of PostgreSQL, with its ends, its infinities and its nulls.
create extension if not exists citext;
create extension if not exists ltree;
create extension if not exists hstore;
create type mood as enum ('sad', 'ok', 'it''s "fine"');
create domain price as numeric(8, 2);
create table types (
  id int primary key,
  c_boolean boolean, c_smallint smallint, c_int int, c_bigint bigint, c_oid oid,
  c_real real, c_double double precision,
  c_numeric_5_2 numeric(5, 2), c_numeric_10_0 numeric(10, 0), c_numeric_50_10 numeric(50, 10), c_numeric numeric,
  c_price price, c_money money,
  c_char char(5), c_varchar varchar(10), c_text text, c_citext citext,
  c_bytea bytea, c_bit1 bit(1), c_bit3 bit(3), c_bit64 bit(64), c_varbit bit varying(10),
  c_date date, c_time time, c_time3 time(3), c_timetz timetz,
  c_timestamp timestamp, c_timestamp3 timestamp(3), c_timestamp0 timestamp(0), c_timestamptz timestamptz,
  c_interval interval,
  c_uuid uuid, c_json json, c_jsonb jsonb, c_xml xml, c_hstore hstore, c_ltree ltree, c_mood mood,
  c_inet inet, c_cidr cidr, c_macaddr macaddr, c_macaddr8 macaddr8,
  c_int4range int4range, c_int8range int8range, c_numrange numrange, c_tsrange tsrange, c_tstzrange tstzrange,
  c_daterange daterange,
  c_point point, c_line line, c_lseg lseg, c_box box, c_path path, c_polygon polygon, c_circle circle,
  c_tsvector tsvector, c_tsquery tsquery,
  a_boolean boolean[], a_smallint smallint[], a_int int[], a_bigint bigint[], a_real real[], a_double double precision[],
  a_numeric_5_2 numeric(5, 2)[], a_numeric numeric[], a_text text[], a_varchar varchar(10)[], a_char char(3)[],
  a_bytea bytea[], a_date date[], a_time time[], a_timestamp timestamp[], a_timestamptz timestamptz[], a_uuid uuid[],
  a_jsonb jsonb[], a_mood mood[], a_inet inet[], a_int_int int[][]
);
insert into types (id) values (0);
-- STREAM
insert into types values (
  1,
  true, -32768, -2147483648, 9223372036854775807, 4294967295,
  0.1, 1e300,
  123.45, 42, 1234567890123456789012345678901234567890.0123456789, 1.50,
  999999.99, '$1,234.56',
  'ab', 'vär', E'line\n"q"', 'MiXed',
  '\x00ff10', B'1', B'101', B'1000000000000000000000000000000000000000000000000000000000000001', B'1101',
  '2020-02-29', '12:34:56.123456', '12:34:56.123', '12:34:56.123456+02',
  '2020-03-29 02:30:00.123456', '2020-03-29 02:30:00.123', '2020-03-29 02:30:00', '2020-03-29 02:30:00.123456+02',
  '1 year 2 mons 3 days 04:05:06.7',
  '9f0d7b0e-0000-4000-8000-000000000000', '{"k": 1.0}', '{"k": [1.0, null]}', '<a>x</a>', 'k=>"v", n=>NULL', 'a.b',
  'it''s "fine"',
  '10.0.0.1/24', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05',
  '[1,5)', '[1,5)', '[1.5,2.5)', '[2020-01-01,2020-01-02)', '[2020-01-01 00:00+00,2020-01-02 00:00+00)',
  '[2020-01-01,2020-01-02)',
  '(1.5,2.5)', '{1,2,3}', '[(0,0),(1,1)]', '((1,1),(0,0))', '((0,0),(1,1))', '((0,0),(1,1),(1,0))', '<(0,0),1>',
  'a fat cat', 'fat & cat',
  array[true, null], array[1, null]::smallint[], array[1, null], array[1, null]::bigint[], array[0.1, 'NaN']::real[],
  array[1.5, 'Infinity']::double precision[],
  array[1.50, null], array[1.5, 22.25]::numeric[], array['a', null, 'b "c"'], array['v'], array['c']::char(3)[],
  array['\x00ff'::bytea, null], array['2020-01-01'::date], array['10:00'::time], array['2020-01-01 00:00:00.5'::timestamp],
  array['2020-01-01 00:00+02'::timestamptz], array['9f0d7b0e-0000-4000-8000-000000000000'::uuid],
  array['{"k": 1}'::jsonb], array['sad', 'ok']::mood[], array['10.0.0.1'::inet], array[[1, 2], [3, 4]]
);
insert into types (id, c_real, c_double, c_timestamp, c_timestamptz, c_date, c_interval, c_numeric) values
  (2, 'NaN', 'Infinity', 'infinity', 'infinity', 'infinity', '-1 days', 'NaN'),
  (3, '-Infinity', '-0', '-infinity', '-infinity', '-infinity', '0', 'Infinity'),
  (4, 1e-40, 1e-320, '0044-03-15 00:00:00 BC', '0044-03-15 00:00:00+00 BC', '0044-03-15 BC', '178000000 years', -0.00),
  (5, 0, 0, '12020-01-01', '12020-01-01+00', '12020-01-01', null, 1e30),
  (6, 0, 0, '0001-01-01', '0001-01-01+00', '0001-01-01', '1.000001 s', 12345678901234567890123456789012345678.9),
  (7, 0, 0, '1969-12-31 23:59:59.999999', '1969-12-31 23:59:59.999999+00', '1969-12-31', '-0.000001 s', -1e-30);
insert into types (id, c_time, c_timetz, c_text, c_varchar, c_bytea, a_int, a_text, c_numeric_5_2, c_money, c_time3) values
  (8, '24:00', '24:00+00', '', '', '', '{}', '{}', -999.99, '-$92233720368547758.08', '23:59:59.9996'),
  (9, '00:00', '00:00-12', '__debezium_unavailable_value', 'null', '\x', null, array[null]::text[], 0.00, '$0.00', '00:00');
update types set c_mood = 'sad', c_int = null where id = 1;
