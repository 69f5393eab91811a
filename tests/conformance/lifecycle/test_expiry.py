"""Ten thousand deadlines at once: one timer, nothing early, nothing left."""

import contextlib
import datetime
import sqlite3
import time
import uuid

COUNT = 10_000


def test_ten_thousand_end_together_and_not_before(make_server):
    server = make_server()
    server.create_failing(image={"uri": "127.0.0.1:1/none:none"})  # a record without a sandbox
    server.stop()
    with contextlib.closing(sqlite3.connect(server.directory / "server.db")) as database, database:
        columns = [row[1] for row in database.execute("pragma table_info(sandboxes)")]
        row = dict(zip(columns, database.execute("select * from sandboxes").fetchone()))
        deadline = time.time() + 5
        copies = [{**row, "id": str(uuid.uuid4()), "expires_at": int(deadline * 1e6)} for _ in range(COUNT)]
        database.executemany(f"insert into sandboxes values ({', '.join('?' * len(columns))})",
                             [[copy[name] for name in columns] for copy in copies])
    with server.saying("sandbox expired", times=COUNT) as said:
        server.start()
    for line in said:
        if "sandbox expired" in line:
            assert datetime.datetime.fromisoformat(line.split()[0]).timestamp() >= deadline - 0.001, line
    assert [item["id"] for item in server.client.get("/v1/sandboxes").json()["items"]] == [row["id"]]
    server.remove_all()
