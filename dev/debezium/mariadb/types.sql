-- Every column type of MariaDB (and MySQL, where no line says otherwise), with its ends and its nulls.
create table types (
  id int primary key,
  c_boolean boolean, c_tinyint tinyint, c_tinyint_u tinyint unsigned, c_smallint smallint, c_smallint_u smallint unsigned,
  c_mediumint mediumint, c_mediumint_u mediumint unsigned, c_int int, c_int_u int unsigned,
  c_bigint bigint, c_bigint_u bigint unsigned, c_int_zerofill int(5) zerofill,
  c_float float, c_float_7_4 float(7, 4), c_double double, c_real real,
  c_decimal_5_2 decimal(5, 2), c_decimal_10_0 decimal(10, 0), c_decimal_65_30 decimal(65, 30), c_numeric numeric(8, 3),
  c_bit1 bit(1), c_bit3 bit(3), c_bit64 bit(64),
  c_char char(5), c_varchar varchar(10), c_varchar_latin1 varchar(10) character set latin1,
  c_tinytext tinytext, c_text text, c_mediumtext mediumtext, c_longtext longtext,
  c_binary binary(4), c_varbinary varbinary(10), c_tinyblob tinyblob, c_blob blob, c_mediumblob mediumblob,
  c_longblob longblob,
  c_date date, c_time time, c_time3 time(3), c_time6 time(6), c_year year,
  c_datetime datetime, c_datetime3 datetime(3), c_datetime6 datetime(6),
  c_timestamp timestamp null, c_timestamp3 timestamp(3) null, c_timestamp6 timestamp(6) null,
  c_enum enum('sad', 'ok', 'it''s "fine"'), c_set set('a', 'b', 'c'), c_json json,
  c_point point, c_linestring linestring, c_polygon polygon, c_geometry geometry, c_geometrycollection geometrycollection,
  -- of MariaDB alone, whose inet4 and inet6 Debezium cannot parse
  c_uuid uuid
);
insert into types (id) values (0);
-- STREAM
insert into types values (
  1,
  true, -128, 255, -32768, 65535, -8388608, 16777215, -2147483648, 4294967295,
  -9223372036854775808, 18446744073709551615, 42,
  0.1, 123.4567, 1e300, -1.5,
  123.45, 42, 12345678901234567890123456789012345.012345678901234567890123456789, -1.250,
  b'1', b'101', b'1000000000000000000000000000000000000000000000000000000000000001',
  'ab', 'vär', 'ä', 'tiny', 'line\n"q"', 'medium', 'long',
  x'00ff', x'00ff10', x'01', x'02', x'03', x'04',
  '2020-02-29', '12:34:56', '12:34:56.123', '12:34:56.123456', 2020,
  '2020-03-29 02:30:00', '2020-03-29 02:30:00.123', '2020-03-29 02:30:00.123456',
  '2020-03-29 02:30:00', '2020-03-29 02:30:00.123', '2020-03-29 02:30:00.123456',
  'it''s "fine"', 'a,c', '{"k": [1.0, null]}',
  point(1.5, 2.5), st_geomfromtext('LINESTRING(0 0, 1 1)'), st_geomfromtext('POLYGON((0 0, 1 0, 1 1, 0 0))'),
  point(1, 2), st_geomfromtext('GEOMETRYCOLLECTION(POINT(1 1))'),
  '9f0d7b0e-0000-4000-8000-000000000000'
);
insert into types (id, c_date, c_time, c_time6, c_year, c_datetime, c_datetime6, c_timestamp, c_timestamp6, c_enum, c_set) values
  (2, '1000-01-01', '-838:59:59', '-838:59:59.000000', 1901, '1000-01-01 00:00:00', '1000-01-01 00:00:00',
    '1970-01-01 00:00:01', '1970-01-01 00:00:01', '', ''),
  (3, '9999-12-31', '838:59:59', '838:59:59.000000', 2155, '9999-12-31 23:59:59', '9999-12-31 23:59:59.999999',
    '2038-01-19 03:14:07', '2038-01-19 03:14:07.999999', 'sad', 'a,b,c'),
  (4, '0000-00-00', '00:00:00', '-00:00:00.000001', 0, '0000-00-00 00:00:00', '0000-00-00 00:00:00', null, null, null, null);
insert into types (id, c_tinyint, c_decimal_5_2, c_text, c_blob, c_bigint_u, c_char) values
  (5, 0, -999.99, '', '', 9223372036854775808, ''), (6, 1, 0.00, '__debezium_unavailable_value', x'ff', 0, 'null');
update types set c_enum = 'sad', c_int = null where id = 1;
