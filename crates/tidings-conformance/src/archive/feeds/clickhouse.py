"""ClickHouse's HTTP interface over chDB, which is ClickHouse as a library.

Arguments: port, folder of the database.
"""

import gzip
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

from chdb.session import Session

port, folder = int(sys.argv[1]), sys.argv[2]
session = Session(folder)
session.query("CREATE DATABASE IF NOT EXISTS events ENGINE = Atomic")
session.query("USE events")


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200, b"Ok.\n")

    def do_POST(self):
        parameters = parse_qs(urlsplit(self.path).query)
        body = self.rfile.read(int(self.headers["Content-Length"] or 0))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        rows = body.decode()
        query = parameters.get("query", [rows])[0]
        token = parameters.get("insert_deduplication_token")
        if token:
            into, form = query.split(" FORMAT ")
            settings = f"SETTINGS insert_deduplication_token = '{token[0]}'"
            query = f"{into} {settings} FORMAT {form} {rows}"
        try:
            self.answer(200, session.query(query).bytes())
        except Exception as error:
            self.answer(500, str(error).encode())

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", port), Handler).serve_forever()
