-- Values stored out of line (TOAST), of each type that can be, which updates of another column do not send.
create extension if not exists hstore;
create extension if not exists citext;
create table large (
  id int primary key, n int, small text,
  c_text text, c_varchar varchar, c_citext citext, c_bytea bytea, c_json json, c_jsonb jsonb, c_xml xml, c_hstore hstore,
  c_numeric numeric, c_varbit bit varying, c_tsvector tsvector, c_path path,
  a_text text[], a_varchar varchar[], a_boolean boolean[], a_smallint smallint[], a_int int[], a_bigint bigint[],
  a_real real[], a_double double precision[], a_numeric numeric[], a_numeric_5_2 numeric(5, 2)[], a_bytea bytea[],
  a_date date[], a_time time[], a_timestamp timestamp[], a_timestamptz timestamptz[], a_uuid uuid[], a_jsonb jsonb[]
);
create table full_rows (like large including all);
alter table full_rows replica identity full;
do $$ declare c record; begin
  for c in select table_name t, column_name n from information_schema.columns
      where table_name in ('large', 'full_rows') and column_name ~ '^[ac]_' loop
    execute format('alter table %I alter column %I set storage external', c.t, c.n); end loop; end $$;
insert into large (id, n, small) values (0, 0, 'nothing large');
-- STREAM
insert into large
  select 1, 1, 'small', repeat('t', 2100), repeat('v', 2100), repeat('c', 2100), decode(repeat('ff', 2100), 'hex'),
    json_build_object('k', repeat('j', 2100)), jsonb_build_object('k', repeat('b', 2100)),
    xmlparse(content '<a>' || repeat('x', 2100) || '</a>'), hstore('k', repeat('h', 2100)),
    (repeat('7', 6000) || '.5')::numeric, repeat('10', 9000)::bit varying,
    string_agg('word' || g, ' ')::tsvector, ('(' || string_agg('(' || g || ',0)', ',') || ')')::path,
    array_agg(md5(g::text)), array_agg(md5(g::text)), array_agg(true) || (select array_agg(true) from generate_series(1, 2400)),
    array_agg(g::smallint) || (select array_agg(1::smallint) from generate_series(1, 700)), array_agg(g)
      || (select array_agg(1) from generate_series(1, 300)),
    array_agg(g::bigint), array_agg(g::real) || (select array_agg(1::real) from generate_series(1, 300)),
    array_agg(g::double precision), array_agg(g::numeric),
    array_agg(g::numeric(5, 2)), array_agg(decode(md5(g::text), 'hex')),
    array_agg('2020-01-01'::date + g) || (select array_agg('2020-01-01'::date) from generate_series(1, 300)),
    array_agg('10:00'::time), array_agg('2020-01-01'::timestamp),
    array_agg('2020-01-01'::timestamptz), array_agg(md5(g::text)::uuid), array_agg(jsonb_build_object('k', g))
  from generate_series(1, 300) g;
insert into full_rows select * from large where id = 1;
update large set n = 2 where id = 1;
update full_rows set n = 2 where id = 1;
update large set c_text = repeat('u', 2100), n = 3 where id = 1;
update large set c_text = null, c_jsonb = null, n = 4 where id = 1;
update large set id = 2 where id = 1;
update large set n = 1 where id = 0;
delete from large where id = 2;
