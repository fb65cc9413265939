"""Compares what DuckDB and ClickHouse read in archives with what these should have.

compare.py ASKED: ASKED is a file of JSON. It names the file of expected rows ("rows", a line of
JSON for each, with times in microseconds and the length of the event's bytes), that of the bytes of
their events, one after the other ("objects"), the folder of the archives ("folder"), and where an
S3 server has the same ones, if one has ("s3": "url", "key", "secret", "region").

Prints a line of JSON for each engine, way to the files, and cluster: what was compared, and what
differs. A line that has "said" is for who reads the test's output: what was not done, or not at
once.
"""

import json
import sys
from collections import Counter

import chdb.session
import duckdb

TEXTS = ["cluster", "namespace", "kind", "name", "uid", "event", "object_uid", "reason", "type"]
TEXTS += ["source", "host", "reporting_controller", "action", "message"]
NUMBERS = ["epoch", "version", "count"]
TIMES = ["observed", "first_seen", "last_seen"]
COLUMNS = TEXTS + NUMBERS + TIMES + ["labels", "object"]
# The columns that identify a version, and its time of observation.
KNOWN_BY = ["cluster", "uid", "epoch", "version", "observed"]
# Columns by whose values rows are searched: most have statistics or filters.
SOUGHT = ["uid", "event", "name", "reason", "message", "version", "count", "observed", "last_seen"]
ROLLED = ["cluster", "namespace", "kind", "hour", "reason", "type"]
HOUR = 3_600_000_000
# Number of values of a column that are searched, with its ends, and of printed differences.
SAMPLES = 3
TOLD = 5


class DuckDb:
    name = "DuckDB"
    asks_again = False

    def __init__(self, root, s3=None):
        self.root = root
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'UTC'")
        if s3:
            self.connection.execute("LOAD httpfs")
            protocol, address = s3["url"].split("://")
            host, self.root = address.split("/", 1)
            self.root = "s3://" + self.root
            self.connection.execute(
                f"CREATE SECRET (TYPE s3, KEY_ID '{s3['key']}', SECRET '{s3['secret']}',"
                f" REGION '{s3['region']}', ENDPOINT '{host}', URL_STYLE 'path',"
                f" USE_SSL {protocol == 'https'})"
            )

    def ask(self, statement):
        return self.connection.execute(statement).fetchall()

    def manifest(self, cluster):
        files = self.ask(
            "SELECT to_json(file)::VARCHAR FROM (SELECT unnest(files) AS file"
            f" FROM read_json('{self.root}/{cluster}/manifests/*.json', filename = true)"
            " QUALIFY dense_rank() OVER (ORDER BY number DESC) = 1)"
        )
        return [json.loads(file) for (file,) in files]

    def table(self, cluster, paths):
        listed = ", ".join(f"'{self.root}/{cluster}/{path}'" for path in paths)
        return (
            "(SELECT *, parse_filename(filename) AS file_name"
            f" FROM read_parquet([{listed}], filename = true))"
        )

    # A zero byte would end the statement.
    text = staticmethod(
        lambda value: "'" + value.replace("'", "''").replace("\0", "' || chr(0) || '") + "'"
    )
    time = staticmethod(lambda micros: f"make_timestamptz(({micros})::BIGINT)")
    micros = staticmethod(lambda column: f"epoch_us({column})")
    hex = staticmethod(lambda column: f"hex({column})")
    bytes_of = staticmethod(lambda column: f"octet_length({column})")
    text_bytes = staticmethod(lambda column: f"strlen({column})")
    wide = staticmethod(lambda column: f"sum({column})::VARCHAR")
    distinct = staticmethod(lambda columns: f"count(DISTINCT {columns})")
    pairs = staticmethod(lambda column: f"cardinality({column})")
    hour = staticmethod(lambda column: f"epoch_us(date_trunc('hour', {column}))")
    # Kubernetes' times, the years 0 to 9999, in microseconds.
    hours = (-62_167_219_200_000_000, 253_402_300_799_999_999)


class ClickHouse:
    name = "ClickHouse"

    def __init__(self, session, root, s3=None):
        self.session = session
        self.root = root
        self.s3 = s3
        # Once, on a busy machine, it found nothing on S3 where it found what is there in hundreds
        # of other runs. So one empty answer is told; a second one differs as any other.
        self.asks_again = s3 is not None

    def ask(self, statement):
        answer = self.session.query(statement, "JSONCompactEachRow")
        return [json.loads(line) for line in str(answer).split("\n") if line]

    def read(self, path, form):
        if self.s3:
            key, secret = self.s3["key"], self.s3["secret"]
            return f"s3('{self.s3['url']}/{path}', '{key}', '{secret}', '{form}')"
        return f"file('{self.root}/{path}', '{form}')"

    def manifest(self, cluster):
        manifests = self.read(f"{cluster}/manifests/*.json", "JSONAsString")
        files = self.ask(
            "SELECT arrayJoin(JSONExtractArrayRaw(argMax(json, _file), 'files')) FROM " + manifests
        )
        return [json.loads(file) for (file,) in files]

    def table(self, cluster, paths):
        folder = paths[0].split("/")[0]
        names = ", ".join(f"'{path.split('/')[1]}'" for path in paths)
        files = self.read(f"{cluster}/{folder}/*.parquet", "Parquet")
        return f"(SELECT *, _file AS file_name FROM {files} WHERE _file IN ({names}))"

    text = staticmethod(
        lambda value: "'"
        + value.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")
        + "'"
    )
    time = staticmethod(lambda micros: f"fromUnixTimestamp64Micro(toInt64({micros}), 'UTC')")
    micros = staticmethod(lambda column: f"toUnixTimestamp64Micro({column})")
    hex = staticmethod(lambda column: f"hex({column})")
    bytes_of = staticmethod(lambda column: f"length({column})")
    text_bytes = bytes_of
    wide = staticmethod(lambda column: f"toString(sum(toInt256({column})))")
    distinct = staticmethod(lambda columns: f"uniqExact({columns})")
    pairs = staticmethod(lambda column: f"length(mapKeys({column}))")
    hour = staticmethod(lambda column: f"toUnixTimestamp(toStartOfHour({column})) * 1000000")
    # The seconds that have 32 bits: 1970 to 2106.
    hours = (0, 2**32 * 1_000_000 - 1)


def expected_rows(asked):
    clusters = {}
    with open(asked["rows"], encoding="utf-8") as rows, open(asked["objects"], "rb") as objects:
        for line in rows:
            row = json.loads(line)
            row["object"] = objects.read(row["object"]).hex().upper()
            clusters.setdefault(row["cluster"], []).append(row)
    return clusters


def whole(row):
    """A row in a form that can be counted."""
    return tuple(
        tuple(sorted(row[name].items())) if name == "labels" else row[name] for name in COLUMNS
    )


def selected(engine, name):
    quoted = f'"{name}"'
    if name in TIMES:
        return engine.micros(quoted)
    return engine.hex(quoted) if name == "object" else quoted


def all_rows(engine, table):
    """Every value of every row, and null where there is none."""
    columns = ", ".join(selected(engine, name) for name in COLUMNS)
    for values in engine.ask(f"SELECT {columns} FROM {table}"):
        yield dict(zip(COLUMNS, values))


def differing(what, expected, found):
    """Some of the items that one has and the other does not."""
    if expected == found:
        return
    for sign, more in [("missing", expected - found), ("unexpected", found - expected)]:
        for one, number in list(more.items())[:TOLD]:
            yield f"{what}: {sign} {number} times: {str(one)[:2000]}"


def differing_rows(expected, found):
    """Rows that one has and the other has not; of versions that both have, the columns."""
    if Counter(map(whole, expected)) == Counter(map(whole, found)):
        return
    expected_by, found_by = ({known(row): row for row in rows} for rows in (expected, found))
    same = [
        f"{version}: {name} = {str(row[name])[:300]!r} expected, found"
        f" {str(found_by[version][name])[:300]!r}"
        for version, row in expected_by.items()
        for name in COLUMNS
        if version in found_by and row[name] != found_by[version][name]
    ]
    yield from same[:TOLD]
    yield from differing("versions", Counter(map(known, expected)), Counter(map(known, found)))
    yield f"{len(expected)} rows expected, found {len(found)}; {len(same)} values differ"


def summed(engine, table, rows):
    """Of each column: how many values, how many different ones, the least, the greatest and their
    sum; of texts and bytes, the sum of their lengths."""
    asked, expected = [], []
    for name in COLUMNS:
        quoted = f'"{name}"'
        values = [row[name] for row in rows if row[name] is not None]
        if name == "labels":
            asked.append((name, [engine.wide(engine.pairs(quoted))]))
            expected.append([sum(map(len, values))])
            continue
        distinct, least = engine.distinct(quoted), f"min({quoted})"
        many = [f"count({quoted})", distinct, least, least.replace("min(", "max(", 1)]
        if name in TEXTS + ["object"]:
            order = (lambda one: one.encode()) if name in TEXTS else bytes.fromhex
            lengths = [len(order(value)) for value in values]
            ends = [min(values, key=order), max(values, key=order)]
            # As bytes, so that no text is converted.
            many[2:] = [engine.hex(end) for end in many[2:]]
            ends = [order(end).hex().upper() for end in ends]
            length = engine.text_bytes if name in TEXTS else engine.bytes_of
            many.append(engine.wide(length(quoted)))
            of_all = sum(lengths)
        elif name in TIMES:
            many[2:] = [engine.micros(end) for end in many[2:]]
            many.append(engine.wide(engine.micros(quoted)))
            ends, of_all = [min(values), max(values)], sum(values)
        else:
            many.append(engine.wide(quoted))
            ends, of_all = [min(values), max(values)], sum(values)
        asked.append((name, many))
        expected.append([len(values), len(set(values)), *ends, of_all])
    every = ", ".join(expression for _, many in asked for expression in many)
    (answer,) = engine.ask(f"SELECT {every} FROM {table}")
    answer = list(answer)
    for (name, many), wanted in zip(asked, expected):
        found, answer = answer[: len(many)], answer[len(many) :]
        found[-1] = int(found[-1])
        if found != wanted:
            yield f"{name}: {str(wanted)[:1000]} expected, found {str(found)[:1000]}"


def known(row):
    return tuple(row[name] for name in KNOWN_BY)


def sought(engine, table, rows):
    """Rows that have a value, by some values of each column that is looked for."""
    columns = ", ".join(selected(engine, name) for name in KNOWN_BY)
    for name in SOUGHT:
        values = {row[name] for row in rows if row[name] is not None}
        # The ends, and some between them.
        ordered = sorted(values)
        step = max(1, (len(ordered) - 1) // (SAMPLES - 1))
        for value in dict.fromkeys([*ordered[::step][: SAMPLES - 1], *ordered[-1:]]):
            literal = str(value)
            if name in TEXTS:
                literal = engine.text(value)
            elif name in TIMES:
                literal = engine.time(value)
            what = f"{name} = {str(value)[:100]!r}"
            question = f'SELECT {columns} FROM {table} WHERE "{name}" = {literal}'
            found = engine.ask(question)
            if not found and engine.asks_again:
                found = engine.ask(question)
                tell({"said": f"{engine.name} on S3 was asked again: first it found no {what}"})
            expected = Counter(known(row) for row in rows if row[name] == value)
            found = Counter(tuple(row) for row in found)
            yield from differing(what, expected, found)


def nulls(engine, table, rows):
    """A missing value is neither empty nor the beginning of 1970."""
    for name in ["count", "first_seen", "last_seen", "message", "labels"]:
        (found,) = engine.ask(f'SELECT count(*) FROM {table} WHERE "{name}" IS NULL')
        expected = sum(row[name] is None for row in rows)
        if found[0] != expected:
            yield f"{name}: {expected} times null expected, found {found[0]}"


def rolled(engine, table, rows):
    """Rollups have the same counts as the rows."""
    expected = Counter()
    for row in rows:
        seen = row["last_seen"]
        hour = None if seen is None else seen - seen % HOUR
        expected[tuple(hour if name == "hour" else row[name] for name in ROLLED)] += 1
    columns = [engine.micros('"hour"') if name == "hour" else f'"{name}"' for name in ROLLED]
    by = ", ".join(f'"{name}"' for name in ROLLED)
    columns = ", ".join(columns + [engine.wide('"versions"')])
    answer = engine.ask(f"SELECT {columns} FROM {table} GROUP BY {by}")
    found = Counter({tuple(row[:-1]): int(row[-1]) for row in answer})
    yield from differing("rollups", expected, found)
    by += ', "file_name"'
    twice = f"SELECT 1 FROM {table} GROUP BY {by} HAVING count(*) > 1"
    if engine.ask(twice):
        yield "rollups: a row is there twice in a file"


def hours(engine, table, rows):
    """How many versions were last seen in each hour, as far as the engine knows hours."""
    first, last = engine.hours
    expected = Counter(
        row["last_seen"] - row["last_seen"] % HOUR
        for row in rows
        if row["last_seen"] is not None and first <= row["last_seen"] <= last
    )
    hour = engine.hour('"last_seen"')
    answer = engine.ask(
        f"SELECT {hour} AS hour, count(*) FROM {table} WHERE last_seen >= {engine.time(first)}"
        f" AND last_seen <= {engine.time(last)} GROUP BY hour"
    )
    yield from differing("hours", expected, Counter({hour: count for hour, count in answer}))


def by_file(engine, table, number, files, path):
    """The number of versions in each file, or in its rollup."""
    answer = engine.ask(f"SELECT file_name, {number} FROM {table} GROUP BY file_name")
    found = {name: int(count) for name, count in answer}
    expected = {path(file).split("/")[1]: int(file["rows"]) for file in files}
    if found != expected:
        yield f"the manifest says {expected}, found {found}"


def compare(engine, cluster, rows):
    files = engine.manifest(cluster)
    events = engine.table(cluster, [file["path"] for file in files])
    rollups = engine.table(cluster, [file["rollup"]["path"] for file in files])
    found = list(all_rows(engine, events))
    differences = list(differing_rows(rows, found))
    for differs in [
        summed(engine, events, rows),
        sought(engine, events, rows),
        nulls(engine, events, rows),
        rolled(engine, rollups, rows),
        hours(engine, events, rows),
        by_file(engine, events, "count(*)", files, lambda file: file["path"]),
        by_file(
            engine, rollups, engine.wide('"versions"'), files, lambda file: file["rollup"]["path"]
        ),
    ]:
        differences.extend(differs)
    return {"cluster": cluster, "rows": len(found), "files": len(files), "differences": differences}


def engines(asked):
    """Every available engine, with each way to read the files."""
    session = chdb.session.Session()
    session.query("SET session_timezone = 'UTC'")
    session.query("SET output_format_json_quote_64bit_integers = 0")
    # Every query reads the files, and not what an earlier query left in a cache.
    session.query("SET use_query_condition_cache = 0")
    # A searched message may be longer than the default maximum of a query.
    session.query("SET max_query_size = 16777216")
    yield DuckDb(asked["folder"]), "folder"
    yield ClickHouse(session, asked["folder"]), "folder"
    if not asked["s3"]:
        return
    yield ClickHouse(session, None, asked["s3"]), "s3"
    try:
        # This downloads nothing.
        duckdb.connect().execute("LOAD httpfs")
    except duckdb.Error as error:
        why = str(error).splitlines()[0]
        tell({"said": f"skipped: DuckDB reads no S3, its Python package has no httpfs: {why}"})
        return
    yield DuckDb(None, asked["s3"]), "s3"


def tell(answer):
    print(json.dumps(answer), flush=True)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        asked = json.load(file)
    clusters = expected_rows(asked)
    for engine, way in engines(asked):
        for cluster, rows in clusters.items():
            tell({"engine": engine.name, "from": way, **compare(engine, cluster, rows)})


main()
