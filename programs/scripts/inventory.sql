-- A database in memory, filled from recursive queries with a linear congruential sequence: every run sees the same rows.
CREATE TABLE article(id INTEGER PRIMARY KEY, name TEXT NOT NULL, class INTEGER NOT NULL, cents INTEGER NOT NULL);
CREATE TABLE sale(id INTEGER PRIMARY KEY, article INTEGER NOT NULL REFERENCES article, day INTEGER NOT NULL,
  count INTEGER NOT NULL, note TEXT);

BEGIN;
WITH RECURSIVE dice(n, x) AS (
  SELECT 1, 12345 UNION ALL SELECT n + 1, (x * 1103515245 + 12345) % 2147483648 FROM dice WHERE n < :rows / 20
)
INSERT INTO article
  SELECT n, printf('%s-%05d', substr('alphabetagammadeltaepsilonzeta', 1 + x % 20, 8), n), x / 7 % 50, 100 + x % 99900
  FROM dice;

WITH RECURSIVE dice(n, x) AS (
  SELECT 1, 54321 UNION ALL SELECT n + 1, (x * 1103515245 + 12345) % 2147483648 FROM dice WHERE n < :rows
)
INSERT INTO sale SELECT n, 1 + x / 64 % (:rows / 20), x / 1024 % 730, 1 + x / 4096 % 12,
  CASE WHEN x % 3 = 0 THEN printf('remark %d on day %d: %s', n, x % 730, hex(x * n)) END FROM dice;
COMMIT;

CREATE INDEX sale_by_article ON sale(article, day);
CREATE INDEX sale_by_note ON sale(note) WHERE note IS NOT NULL;

SELECT class, count(*), sum(count * cents), max(length(note))
  FROM sale JOIN article ON article.id = sale.article GROUP BY class ORDER BY class;
SELECT day / 30 AS month, sum(count), group_concat(DISTINCT substr(name, 1, 4))
  FROM sale JOIN article ON article.id = sale.article GROUP BY month ORDER BY month;

-- Change, delete and insert again: pages are freed and used anew.
UPDATE sale SET note = upper(note) || ' (seen)' WHERE id % 5 = 0 AND note IS NOT NULL;
DELETE FROM sale WHERE article % 3 = 1;
INSERT INTO sale SELECT id + :rows, article, (day + 365) % 730, count, 'again ' || id FROM sale WHERE id % 2 = 0;

CREATE TABLE word AS
  WITH RECURSIVE part(id, head, rest) AS (
    SELECT id, '', note || ' ' FROM sale WHERE note IS NOT NULL AND id % 4 = 0
    UNION ALL SELECT id, substr(rest, 1, instr(rest, ' ') - 1), substr(rest, instr(rest, ' ') + 1) FROM part WHERE rest <> ''
  ) SELECT id, head FROM part WHERE head <> '';
SELECT head, count(*) AS times FROM word GROUP BY head ORDER BY times DESC, head LIMIT 20;
SELECT count(*), sum(count), sum(length(note)) FROM sale;
SELECT a.id, b.id FROM sale a JOIN sale b ON b.article = a.article AND b.day = a.day AND b.id > a.id
  ORDER BY a.id, b.id LIMIT 25;
