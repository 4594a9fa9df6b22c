"""TPC-H's tables, small, with changes of them; its 22 queries as its specification has them, with its own parameters.

The data are ours: few values, chosen so that each query finds rows.
"""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

TABLES: dict[str, str] = {
    "region": "r_regionkey BIGINT PRIMARY KEY, r_name STRING NOT NULL",
    "nation": "n_nationkey BIGINT PRIMARY KEY, n_name STRING NOT NULL, n_regionkey BIGINT NOT NULL",
    "supplier": "s_suppkey BIGINT PRIMARY KEY, s_name STRING NOT NULL, s_address STRING NOT NULL, "
    "s_nationkey BIGINT NOT NULL, s_phone STRING NOT NULL, s_acctbal DECIMAL(15,2) NOT NULL, s_comment STRING NOT NULL",
    "customer": "c_custkey BIGINT PRIMARY KEY, c_name STRING NOT NULL, c_address STRING NOT NULL, "
    "c_nationkey BIGINT NOT NULL, c_phone STRING NOT NULL, c_acctbal DECIMAL(15,2) NOT NULL, "
    "c_mktsegment STRING NOT NULL, c_comment STRING NOT NULL",
    "part": "p_partkey BIGINT PRIMARY KEY, p_name STRING NOT NULL, p_mfgr STRING NOT NULL, p_brand STRING NOT NULL, "
    "p_type STRING NOT NULL, p_size INT NOT NULL, p_container STRING NOT NULL",
    "partsupp": "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT NOT NULL, "
    "ps_supplycost DECIMAL(15,2) NOT NULL, PRIMARY KEY (ps_partkey, ps_suppkey)",
    "orders": "o_orderkey BIGINT PRIMARY KEY, o_custkey BIGINT NOT NULL, o_orderstatus STRING NOT NULL, "
    "o_totalprice DECIMAL(15,2) NOT NULL, o_orderdate DATE NOT NULL, o_orderpriority STRING NOT NULL, "
    "o_shippriority INT NOT NULL, o_comment STRING NOT NULL",
    "lineitem": "l_orderkey BIGINT, l_partkey BIGINT NOT NULL, l_suppkey BIGINT NOT NULL, l_linenumber INT, "
    "l_quantity DECIMAL(15,2) NOT NULL, l_extendedprice DECIMAL(15,2) NOT NULL, l_discount DECIMAL(15,2) NOT NULL, "
    "l_tax DECIMAL(15,2) NOT NULL, l_returnflag STRING NOT NULL, l_linestatus STRING NOT NULL, "
    "l_shipdate DATE NOT NULL, l_commitdate DATE NOT NULL, l_receiptdate DATE NOT NULL, "
    "l_shipinstruct STRING NOT NULL, l_shipmode STRING NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber)",
}
"""The columns of each table; of comments those that a query reads."""
KEYS: dict[str, tuple[str, ...]] = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
NATIONS = ("FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA", "JAPAN")
REGIONS = ("EUROPE", "AMERICA", "ASIA", "MIDDLE EAST")
_OF_REGION = (0, 0, 1, 1, 3, 2)
_TYPES = ("ECONOMY ANODIZED STEEL", "PROMO BRUSHED BRASS", "MEDIUM POLISHED COPPER", "LARGE PLATED BRASS")


_ORDERED = ((1993, 8, 1), (1993, 11, 1), (1994, 6, 1), (1994, 9, 1), (1995, 2, 1), (1995, 6, 1), (1996, 6, 1))
_SHIPPED = ((1994, 2, 1), (1994, 5, 1), (1995, 9, 5), (1996, 2, 1))


def _money(rng: random.Random, low: int, high: int) -> Decimal:
    return Decimal(rng.randint(low * 100, high * 100)) / 100


class Data:
    """Rows that come, change and go.

    Parameters
    ----------
    rng : what chooses.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def key(self, table: str) -> tuple[int, ...]:
        """A key."""
        rng, sizes = self.rng, {"supplier": 6, "customer": 8, "part": 8, "orders": 24}
        if table in sizes:
            return (rng.randint(1, sizes[table]),)
        if table == "partsupp":
            return (rng.randint(1, 8), rng.randint(1, 6))
        return (rng.randint(1, 24), rng.randint(1, 4))

    def row(self, table: str, key: tuple[int, ...]) -> dict[str, Any]:
        """The columns of a row that are none of its key."""
        made: dict[str, Any] = getattr(self, f"_{table}")(*key)
        return made

    def _supplier(self, key: int) -> dict[str, Any]:
        rng = self.rng
        comment = rng.choice(("quick", "slow", "Customer of Complaints", "fine"))
        return {
            "s_name": f"Supplier#{key}",
            "s_address": f"street {key}",
            "s_nationkey": rng.choice((0, 0, 1, 1, 2, 3, 4)),
            "s_phone": f"{rng.randint(10, 34)}-{key}",
            "s_acctbal": _money(rng, -100, 9000),
            "s_comment": comment,
        }

    def _customer(self, key: int) -> dict[str, Any]:
        rng = self.rng
        return {
            "c_name": f"Customer#{key}",
            "c_address": f"road {key}",
            "c_nationkey": rng.choice((0, 0, 1, 1, 2, 3)),
            "c_phone": f"{rng.choice((13, 31, 23, 29, 30, 18, 17, 11, 12))}-{key}",
            "c_acctbal": _money(rng, -100, 9000),
            "c_mktsegment": rng.choice(("BUILDING", "MACHINERY")),
            "c_comment": "none",
        }

    def _part(self, key: int) -> dict[str, Any]:
        rng = self.rng
        return {
            "p_name": rng.choice(("forest green", "green lace", "red forest", "forest blue", "black")),
            "p_mfgr": f"Manufacturer#{rng.randint(1, 2)}",
            "p_brand": rng.choice(("Brand#12", "Brand#23", "Brand#34")),
            "p_type": rng.choice(_TYPES),
            "p_size": rng.choice((5, 9, 15, 15)),
            "p_container": rng.choice(("SM CASE", "MED BOX", "LG CASE")),
        }

    def _partsupp(self, part: int, supplier: int) -> dict[str, Any]:
        return {"ps_availqty": self.rng.randint(1, 9999), "ps_supplycost": _money(self.rng, 1, 1000)}

    def _orders(self, key: int) -> dict[str, Any]:
        rng = self.rng
        return {
            "o_custkey": rng.randint(1, 10),
            "o_orderstatus": rng.choice("FFO"),
            "o_totalprice": _money(rng, 1000, 90000),
            "o_orderdate": datetime.date(*rng.choice(_ORDERED)),
            "o_orderpriority": rng.choice(("1-URGENT", "2-HIGH", "3-MEDIUM")),
            "o_shippriority": 0,
            "o_comment": rng.choice(("plain", "special packages requests", "usual")),
        }

    def _lineitem(self, order: int, number: int) -> dict[str, Any]:
        rng = self.rng
        shipped = datetime.date(*rng.choice(_SHIPPED))
        commit, receipt = (shipped + datetime.timedelta(days=rng.randint(*days)) for days in ((-10, 20), (1, 30)))
        return {
            "l_partkey": rng.randint(1, 8),
            "l_suppkey": rng.randint(1, 6),
            "l_quantity": Decimal(rng.choice((3, 8, 12, 15, 22, 28, 200))),
            "l_extendedprice": _money(rng, 900, 90000),
            "l_discount": Decimal(rng.randint(4, 8)) / 100,
            "l_tax": Decimal(rng.randint(0, 8)) / 100,
            "l_returnflag": rng.choice("RAN"),
            "l_linestatus": rng.choice("OF"),
            "l_shipdate": shipped,
            "l_commitdate": commit,
            "l_receiptdate": receipt,
            "l_shipinstruct": rng.choice(("DELIVER IN PERSON", "DELIVER IN PERSON", "NONE")),
            "l_shipmode": rng.choice(("MAIL", "SHIP", "AIR")),
        }


def fixed() -> list[tuple[str, tuple[int, ...], dict[str, Any]]]:
    """The rows of nations and regions."""
    rows: list[tuple[str, tuple[int, ...], dict[str, Any]]] = []
    rows += [("region", (n,), {"r_name": name}) for n, name in enumerate(REGIONS)]
    rows += [
        ("nation", (n,), {"n_name": name, "n_regionkey": region})
        for n, (name, region) in enumerate(zip(NATIONS, _OF_REGION, strict=True))
    ]
    return rows


QUERIES: dict[int, str] = {
    1: """select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, sum(l_extendedprice) as sum_base_price,
        sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
        sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge, avg(l_quantity) as avg_qty,
        avg(l_extendedprice) as avg_price, avg(l_discount) as avg_disc, count(*) as count_order
        from lineitem where l_shipdate <= date '1998-12-01' - interval '90' day
        group by l_returnflag, l_linestatus""",
    2: """select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
        from part, supplier, partsupp, nation, region
        where p_partkey = ps_partkey and s_suppkey = ps_suppkey and p_size = 15 and p_type like '%BRASS'
        and s_nationkey = n_nationkey and n_regionkey = r_regionkey and r_name = 'EUROPE'
        and ps_supplycost = (select min(ps_supplycost) from partsupp, supplier, nation, region
            where p_partkey = ps_partkey and s_suppkey = ps_suppkey and s_nationkey = n_nationkey
            and n_regionkey = r_regionkey and r_name = 'EUROPE')
        order by s_acctbal desc, n_name, s_name, p_partkey limit 100""",
    3: """select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority
        from customer, orders, lineitem
        where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
        and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
        group by l_orderkey, o_orderdate, o_shippriority order by revenue desc, o_orderdate limit 10""",
    4: """select o_orderpriority, count(*) as order_count from orders
        where o_orderdate >= date '1993-07-01' and o_orderdate < date '1993-07-01' + interval '3' month
        and exists (select * from lineitem where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
        group by o_orderpriority""",
    5: """select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue
        from customer, orders, lineitem, supplier, nation, region
        where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey
        and c_nationkey = s_nationkey and s_nationkey = n_nationkey and n_regionkey = r_regionkey
        and r_name = 'EUROPE' and o_orderdate >= date '1994-01-01'
        and o_orderdate < date '1994-01-01' + interval '1' year group by n_name""",
    6: """select sum(l_extendedprice * l_discount) as revenue from lineitem
        where l_shipdate >= date '1994-01-01' and l_shipdate < date '1994-01-01' + interval '1' year
        and l_discount between .06 - 0.01 and .06 + 0.01 and l_quantity < 24""",
    7: """select supp_nation, cust_nation, l_year, sum(volume) as revenue
        from (select n1.n_name as supp_nation, n2.n_name as cust_nation, extract(year from l_shipdate) as l_year,
            l_extendedprice * (1 - l_discount) as volume
            from supplier, lineitem, orders, customer, nation n1, nation n2
            where s_suppkey = l_suppkey and o_orderkey = l_orderkey and c_custkey = o_custkey
            and s_nationkey = n1.n_nationkey and c_nationkey = n2.n_nationkey
            and ((n1.n_name = 'FRANCE' and n2.n_name = 'GERMANY') or (n1.n_name = 'GERMANY' and n2.n_name = 'FRANCE'))
            and l_shipdate between date '1995-01-01' and date '1996-12-31') as shipping
        group by supp_nation, cust_nation, l_year""",
    8: """select o_year, sum(case when nation = 'BRAZIL' then volume else 0 end) / sum(volume) as mkt_share
        from (select extract(year from o_orderdate) as o_year, l_extendedprice * (1 - l_discount) as volume,
            n2.n_name as nation
            from part, supplier, lineitem, orders, customer, nation n1, nation n2, region
            where p_partkey = l_partkey and s_suppkey = l_suppkey and l_orderkey = o_orderkey and o_custkey = c_custkey
            and c_nationkey = n1.n_nationkey and n1.n_regionkey = r_regionkey and r_name = 'AMERICA'
            and s_nationkey = n2.n_nationkey and o_orderdate between date '1995-01-01' and date '1996-12-31'
            and p_type = 'ECONOMY ANODIZED STEEL') as all_nations
        group by o_year""",
    9: """select nation, o_year, sum(amount) as sum_profit
        from (select n_name as nation, extract(year from o_orderdate) as o_year,
            l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity as amount
            from part, supplier, lineitem, partsupp, orders, nation
            where s_suppkey = l_suppkey and ps_suppkey = l_suppkey and ps_partkey = l_partkey and p_partkey = l_partkey
            and o_orderkey = l_orderkey and s_nationkey = n_nationkey and p_name like '%green%') as profit
        group by nation, o_year""",
    10: """select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) as revenue, c_acctbal, n_name, c_address,
        c_phone, c_comment from customer, orders, lineitem, nation
        where c_custkey = o_custkey and l_orderkey = o_orderkey and o_orderdate >= date '1993-10-01'
        and o_orderdate < date '1993-10-01' + interval '3' month and l_returnflag = 'R' and c_nationkey = n_nationkey
        group by c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
        order by revenue desc limit 20""",
    11: """select ps_partkey, sum(ps_supplycost * ps_availqty) as value from partsupp, supplier, nation
        where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = 'GERMANY'
        group by ps_partkey having sum(ps_supplycost * ps_availqty) > (
            select sum(ps_supplycost * ps_availqty) * 0.0001 from partsupp, supplier, nation
            where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = 'GERMANY')""",
    12: """select l_shipmode, sum(case when o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH' then 1 else 0
        end) as high_line_count, sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH' then 1
        else 0 end) as low_line_count from orders, lineitem
        where o_orderkey = l_orderkey and l_shipmode in ('MAIL', 'SHIP') and l_commitdate < l_receiptdate
        and l_shipdate < l_commitdate and l_receiptdate >= date '1994-01-01'
        and l_receiptdate < date '1994-01-01' + interval '1' year group by l_shipmode""",
    13: """select c_count, count(*) as custdist from (select c_custkey, count(o_orderkey) as c_count
            from customer left outer join orders on c_custkey = o_custkey and o_comment not like '%special%requests%'
            group by c_custkey) as c_orders group by c_count""",
    14: """select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount) else 0 end)
        / sum(l_extendedprice * (1 - l_discount)) as promo_revenue from lineitem, part
        where l_partkey = p_partkey and l_shipdate >= date '1995-09-01'
        and l_shipdate < date '1995-09-01' + interval '1' month""",
    15: """with revenue as (select l_suppkey as supplier_no, sum(l_extendedprice * (1 - l_discount)) as total_revenue
            from lineitem where l_shipdate >= date '1996-01-01' and l_shipdate < date '1996-01-01' + interval '3' month
            group by l_suppkey)
        select s_suppkey, s_name, s_address, s_phone, total_revenue from supplier, revenue
        where s_suppkey = supplier_no and total_revenue = (select max(total_revenue) from revenue)""",
    16: """select p_brand, p_type, p_size, count(distinct ps_suppkey) as supplier_cnt from partsupp, part
        where p_partkey = ps_partkey and p_brand <> 'Brand#45' and p_type not like 'MEDIUM POLISHED%'
        and p_size in (49, 14, 23, 45, 19, 3, 36, 9) and ps_suppkey not in (
            select s_suppkey from supplier where s_comment like '%Customer%Complaints%')
        group by p_brand, p_type, p_size""",
    17: """select sum(l_extendedprice) / 7.0 as avg_yearly from lineitem, part
        where p_partkey = l_partkey and p_brand = 'Brand#23' and p_container = 'MED BOX' and l_quantity < (
            select 0.2 * avg(l_quantity) from lineitem where l_partkey = p_partkey)""",
    18: """select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) as total
        from customer, orders, lineitem
        where o_orderkey in (select l_orderkey from lineitem group by l_orderkey having sum(l_quantity) > 300)
        and c_custkey = o_custkey and o_orderkey = l_orderkey
        group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
        order by o_totalprice desc, o_orderdate limit 100""",
    19: """select sum(l_extendedprice * (1 - l_discount)) as revenue from lineitem, part
        where (p_partkey = l_partkey and p_brand = 'Brand#12' and p_container in ('SM CASE', 'SM BOX', 'SM PACK')
            and l_quantity >= 1 and l_quantity <= 1 + 10 and p_size between 1 and 5
            and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')
        or (p_partkey = l_partkey and p_brand = 'Brand#23' and p_container in ('MED BAG', 'MED BOX', 'MED PKG')
            and l_quantity >= 10 and l_quantity <= 10 + 10 and p_size between 1 and 10
            and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')
        or (p_partkey = l_partkey and p_brand = 'Brand#34' and p_container in ('LG CASE', 'LG BOX', 'LG PACK')
            and l_quantity >= 20 and l_quantity <= 20 + 10 and p_size between 1 and 15
            and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')""",
    20: """select s_name, s_address from supplier, nation
        where s_suppkey in (select ps_suppkey from partsupp
            where ps_partkey in (select p_partkey from part where p_name like 'forest%')
            and ps_availqty > (select 0.5 * sum(l_quantity) from lineitem
                where l_partkey = ps_partkey and l_suppkey = ps_suppkey and l_shipdate >= date '1994-01-01'
                and l_shipdate < date '1994-01-01' + interval '1' year))
        and s_nationkey = n_nationkey and n_name = 'CANADA'""",
    21: """select s_name, count(*) as numwait from supplier, lineitem l1, orders, nation
        where s_suppkey = l1.l_suppkey and o_orderkey = l1.l_orderkey and o_orderstatus = 'F'
        and l1.l_receiptdate > l1.l_commitdate
        and exists (select * from lineitem l2 where l2.l_orderkey = l1.l_orderkey and l2.l_suppkey <> l1.l_suppkey)
        and not exists (select * from lineitem l3 where l3.l_orderkey = l1.l_orderkey
            and l3.l_suppkey <> l1.l_suppkey and l3.l_receiptdate > l3.l_commitdate)
        and s_nationkey = n_nationkey and n_name = 'SAUDI ARABIA'
        group by s_name order by numwait desc, s_name limit 100""",
    22: """select cntrycode, count(*) as numcust, sum(c_acctbal) as totacctbal
        from (select substring(c_phone, 1, 2) as cntrycode, c_acctbal from customer
            where substring(c_phone, 1, 2) in ('13', '31', '23', '29', '30', '18', '17')
            and c_acctbal > (select avg(c_acctbal) from customer where c_acctbal > 0.00
                and substring(c_phone, 1, 2) in ('13', '31', '23', '29', '30', '18', '17'))
            and not exists (select * from orders where o_custkey = c_custkey)) as custsale
        group by cntrycode""",
}
"""By number. ORDER BY is left out where there is no LIMIT: a table has no order."""
