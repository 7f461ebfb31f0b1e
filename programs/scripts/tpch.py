# SPDX-License-Identifier: Apache-2.0
"""Tables with the columns and sizes of TPC-H's, made by SQL, and queries after the pattern of eight of its own.

python tpch.py ORDERS ROUNDS; prints every answer of the last round. Whole numbers alone, so that no sum depends on its order.
"""

import sys

import duckdb

# `mixed(x, k)`: a number below 2^31 that looks random, the same in every version of DuckDB.
TABLES = """
CREATE MACRO mixed(x, k) AS ((x + k * 7919 + 1) * 1103515245 % 2147483647 * 48271) % 2147483647;
CREATE TABLE region AS SELECT i AS r_key, 'region ' || i AS r_name FROM range(5) t(i);
CREATE TABLE nation AS SELECT i AS n_key, 'nation ' || i AS n_name, i % 5 AS n_region FROM range(25) t(i);
CREATE TABLE supplier AS SELECT i AS s_key, mixed(i, 1) % 25 AS s_nation FROM range($orders // 150) t(i);
CREATE TABLE customer AS SELECT i AS c_key, 'customer ' || i AS c_name, mixed(i, 2) % 25 AS c_nation,
  ['building', 'machinery', 'furniture', 'household', 'automobile'][1 + mixed(i, 3) % 5] AS c_segment
  FROM range($orders // 10) t(i);
CREATE TABLE part AS SELECT i AS p_key, ['red', 'green', 'blue', 'ivory', 'linen'][1 + mixed(i, 4) % 5] || ' part ' || i AS p_name
  FROM range($orders * 2 // 15) t(i);
CREATE TABLE orders AS SELECT i AS o_key, mixed(i, 5) % ($orders // 10) // 3 * 3 AS o_customer, mixed(i, 6) % 2400 AS o_day,
  mixed(i, 7) % 3 AS o_priority, 'note ' || mixed(i, 8) % 97 || ' of ' || i AS o_comment FROM range($orders) t(i);
CREATE TABLE lineitem AS SELECT o_key AS l_order, l AS l_number, mixed(o_key * 8 + l, 9) % ($orders * 2 // 15) AS l_part,
  mixed(o_key * 8 + l, 10) % ($orders // 150) AS l_supplier, 1 + mixed(o_key * 8 + l, 11) % 50 AS l_quantity,
  90000 + mixed(o_key * 8 + l, 12) % 1000000 AS l_price, mixed(o_key * 8 + l, 13) % 11 AS l_discount,
  o_day + 1 + mixed(o_key * 8 + l, 14) % 121 AS l_shipped, ['A', 'N', 'R'][1 + mixed(o_key * 8 + l, 15) % 3] AS l_flag
  FROM orders, range(7) t(l) WHERE l <= mixed(o_key, 16) % 7;
"""
QUERIES = (
    """SELECT l_flag, sum(l_quantity), sum(l_price), sum(l_price * (100 - l_discount)), count(*)
       FROM lineitem WHERE l_shipped <= 2400 GROUP BY ALL ORDER BY ALL""",
    """SELECT l_order, sum(l_price * (100 - l_discount)) AS revenue, o_day FROM customer, orders, lineitem
       WHERE c_segment = 'building' AND c_key = o_customer AND l_order = o_key AND o_day < 1150 AND l_shipped > 1150
       GROUP BY ALL ORDER BY revenue DESC, l_order LIMIT 10""",
    """SELECT n_name, sum(l_price * (100 - l_discount)) AS revenue FROM customer, orders, lineitem, supplier, nation, region
       WHERE c_key = o_customer AND l_order = o_key AND l_supplier = s_key AND s_nation = n_key AND n_region = r_key
       AND r_name = 'region 2' AND o_day BETWEEN 365 AND 1800 GROUP BY ALL ORDER BY ALL""",
    """SELECT sum(l_price * l_discount) FROM lineitem
       WHERE l_shipped BETWEEN 365 AND 730 AND l_discount BETWEEN 5 AND 7 AND l_quantity < 24""",
    """SELECT n_name, o_day // 365 AS year, sum(l_price * (100 - l_discount) - 500 * l_quantity) AS profit
       FROM part, supplier, lineitem, orders, nation WHERE s_key = l_supplier AND p_key = l_part AND o_key = l_order
       AND s_nation = n_key AND p_name LIKE '%green%' GROUP BY ALL ORDER BY ALL""",
    """SELECT c_key, c_name, sum(l_price * (100 - l_discount)) AS revenue, n_name FROM customer, orders, lineitem, nation
       WHERE c_key = o_customer AND l_order = o_key AND o_day BETWEEN 900 AND 990 AND l_flag = 'R' AND c_nation = n_key
       GROUP BY ALL ORDER BY revenue DESC, c_key LIMIT 20""",
    """SELECT placed, count(*) AS customers FROM (SELECT c_key, count(o_key) AS placed FROM customer
       LEFT JOIN orders ON c_key = o_customer AND o_comment NOT LIKE '%note 1%' GROUP BY c_key) GROUP BY ALL ORDER BY ALL""",
    """SELECT c_name, o_key, o_day, sum(l_quantity) AS bought FROM customer, orders, lineitem WHERE o_key IN
       (SELECT l_order FROM lineitem GROUP BY l_order HAVING sum(l_quantity) > 240) AND c_key = o_customer AND o_key = l_order
       GROUP BY ALL ORDER BY bought DESC, o_key LIMIT 100""",
)


def main() -> None:
    orders, rounds = map(int, sys.argv[1:])
    database = duckdb.connect(config={"threads": 2})
    for statement in TABLES.replace("$orders", str(orders)).strip().split(";\n"):
        database.execute(statement)
    for _ in range(rounds):
        answers = [database.execute(query).fetchall() for query in QUERIES]
    for answer in answers:
        for row in answer:
            print(*row, sep="|")
        print()


main()
