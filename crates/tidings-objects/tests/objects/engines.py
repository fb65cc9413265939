"""Runs the questions of a how-to in DuckDB and in ClickHouse, and prints what each answers.

engines.py HOW-TO FOLDER: a line of JSON for each answer, with the engine's name, in the order of the
questions. FOLDER stands for the how-to's /srv/events. What is for Grafana is run in ClickHouse.
"""

import json
import re
import sys

import chdb.session
import duckdb


def statements(text, heading, folder):
    section = text.split("## " + heading)[1].split("\n## ")[0]
    block = re.search(r"```sql\n(.*?)```", section, re.S).group(1)
    block = re.sub(r"--.*", "", block).replace("/srv/events", folder)
    return [one.strip() for one in block.split(";") if one.strip()]


# The expansions of the macros of Grafana's data source, for a panel of two days.
MACROS = {
    r"\$__timeFilter\((\w+)\)": r"\1 >= toDateTime(1699920000) AND \1 <= toDateTime(1700092800)",
    r"\$__timeInterval\((\w+)\)": r"toStartOfInterval(toDateTime(\1), INTERVAL 3600 second)",
}


def of_grafana(text, folder):
    for statement in statements(text, "In Grafana", folder):
        for macro, replaced in MACROS.items():
            statement = re.sub(macro, replaced, statement)
        yield statement


def tell(engine, rows):
    print(json.dumps({"engine": engine, "rows": rows}))


def main():
    how_to, folder = sys.argv[1:]
    with open(how_to, encoding="utf-8") as file:
        text = file.read()
    session = chdb.session.Session()
    session.query("SET session_timezone = 'UTC'")
    if "## In Grafana" in text:
        ask_clickhouse(session, statements(text, "In ClickHouse", folder))
        ask_clickhouse(session, of_grafana(text, folder))
        return
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    for statement in statements(text, "DuckDB", folder):
        answer = connection.execute(statement)
        if statement.startswith("SELECT"):
            tell("DuckDB", [[plain(value) for value in row] for row in answer.fetchall()])
    ask_clickhouse(session, statements(text, "ClickHouse", folder))


def ask_clickhouse(session, statements):
    for statement in statements:
        answer = session.query(statement, "JSONCompactEachRow")
        if statement.startswith("SELECT"):
            rows = [json.loads(line) for line in str(answer).splitlines()]
            tell("ClickHouse", [[plain(value) for value in row] for row in rows])


def plain(value):
    """Numbers as numbers, times as seconds: 2026-01-31 10:00:00."""
    text = str(value)
    if re.fullmatch(r"\d+", text):
        return int(text)
    if re.match(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d", text):
        return text[:19].replace("T", " ")
    return text


main()
