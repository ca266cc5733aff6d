"""What psql asks when somebody presses Tab: a real psql at a terminal of its own."""

import os
import pty
import re
import select
import time

from checks import DATABASE, HOST, PASSWORD, PORT, USER, Checks, equal

check = Checks("psql")
LONG = 60


class Terminal:
    """psql with its line editor."""

    def __init__(self):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.environ.update(PGPASSWORD=PASSWORD, TERM="dumb", INPUTRC="/dev/null", PSQL_HISTORY="/dev/null", PAGER="cat")
            os.execvp("psql", ["psql", "-X", f"host={HOST} port={PORT} user={USER} dbname={DATABASE} sslmode=disable"])
        self.wait(r"=[#>] $")

    def wait(self, pattern):
        """Reads until what was printed ends so."""
        text, begin = "", time.monotonic()
        while not re.search(pattern, text):
            if time.monotonic() - begin > LONG:
                raise AssertionError(f"no {pattern} in {text!r}")
            ready, _, _ = select.select([self.file], [], [], 0.5)
            if ready:
                text += os.read(self.file, 65536).decode("utf-8", "replace")
        return text

    def completed(self, begin, wanted):
        """What a line becomes by one Tab, or what is offered after two."""
        os.write(self.file, begin.encode() + b"\t\t")
        text = self.wait(re.escape(wanted))
        # Leaves the line.
        os.write(self.file, b"\x15\x03")
        self.wait(r"=[#>] $")
        return text

    def end(self):
        os.write(self.file, b"\x15\\q\n")
        os.waitpid(self.pid, 0)


terminal = Terminal()
check.each(
    "tab",
    [
        ("table", ("select * from numb", "numbers")),
        ("schema", ("select * from sho", "shop.")),
        ("table-of-a-schema", ("select * from shop.or", "shop.orders")),
        ("column", ("select * from people where na", "name")),
        ("describe", ("\\d peo", "people")),
        ("database", ("\\c dat", DATABASE)),
        ("setting", ("set statement_time", "statement_timeout")),
        ("setting-value", ("set datestyle to IS", "ISO")),
        ("keyword", ("sel", "select")),
        ("schemas", ("\\dn hr", "hr")),
        ("role", ("\\du an", USER)),
        ("analyze", ("table peo", "people")),
    ],
    lambda pair: terminal.completed(*pair),
)
terminal.end()
check.done()
