"""Writes TPC-DS for `corun-lab bench tpcds`: a Parquet file a table and the text of each query.

Arguments: FOLDER SCALE. The generator and the texts are those of DuckDB's extension. A folder that is complete has the file
`complete`; nothing is written into such a folder.
"""

import glob
import os
import sys

import duckdb


def main():
    folder, scale = sys.argv[1], float(sys.argv[2])
    [extension] = [
        path
        for place in sys.path
        for path in glob.glob(os.path.join(place, "duckdb_ext", "extensions", "*", "*", "tpcds.duckdb_extension"))
    ]
    os.makedirs(os.path.join(folder, "queries"), exist_ok=True)
    connection = duckdb.connect(os.path.join(folder, "tables.duckdb"), config={"allow_unsigned_extensions": "true"})
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET preserve_insertion_order = true")
    connection.load_extension(extension)
    connection.execute("CALL dsdgen(sf = %r)" % scale)
    for (table,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall():
        path = os.path.join(folder, "tables", table)
        os.makedirs(path, exist_ok=True)
        connection.execute("COPY %s TO '%s' (FORMAT parquet, COMPRESSION snappy)" % (table, os.path.join(path, "part-000.parquet")))
    for number, text in connection.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall():
        with open(os.path.join(folder, "queries", "q%02d.sql" % number), "w") as file:
            file.write(text)
    connection.close()
    os.remove(os.path.join(folder, "tables.duckdb"))
    with open(os.path.join(folder, "complete"), "w") as file:
        file.write("%s\n" % duckdb.__version__)


if __name__ == "__main__":
    main()
