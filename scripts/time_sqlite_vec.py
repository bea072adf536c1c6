"""Time sqlite-vec on 100,000 vectors: pip install apsw sqlite-vec==0.1.9 numpy (decision 0014)."""

import statistics
import sys
import time

import apsw
import numpy as np
import sqlite_vec

chance = np.random.default_rng(0)
rows = chance.standard_normal((100_000, 384), dtype=np.float32)
rows /= np.linalg.norm(rows, axis=1, keepdims=True)
whole = np.round(rows / (np.abs(rows).max(1) / 127)[:, None]).astype(np.int8)
database = apsw.Connection("vectors.db")
database.enable_load_extension(True)
database.load_extension(sqlite_vec.loadable_path())
for kind, data, value in (("float", rows, "?"), ("int8", whole, "vec_int8(?)")):
    database.execute(
        f"CREATE VIRTUAL TABLE {kind}s USING vec0(e {kind}[384] distance_metric=cosine)"
    )
    with database:
        database.executemany(
            f"INSERT INTO {kind}s (rowid, e) VALUES (?, {value})",
            ((number, row.tobytes()) for number, row in enumerate(data)),
        )
    times = []
    for query in data[:30]:
        begun = time.perf_counter()
        nearest = f"SELECT rowid FROM {kind}s WHERE e MATCH {value} AND k = 10"
        list(database.execute(nearest, (query.tobytes(),)))
        times.append(1000 * (time.perf_counter() - begun))
    sys.stdout.write(f"{kind} {statistics.median(times):.0f} {max(times):.0f}\n")
