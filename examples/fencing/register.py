# SPDX-License-Identifier: Apache-2.0
"""A store that refuses the past. SQLite stands in for your database; ACCEPT is the statement to copy."""

import sqlite3

# One row for each thing that only the leader may write. The token is the largest that has written it.
CREATE = """
CREATE TABLE IF NOT EXISTS register (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    token INTEGER NOT NULL
)"""
FIRST = "INSERT OR IGNORE INTO register (name, value, token) VALUES (:name, '', 0)"

# Looks and writes in one statement, so nothing can come in between.
ACCEPT = "UPDATE register SET value = :value, token = :token WHERE name = :name AND token <= :token"


class Refused(Exception):
    """A later leader has written already."""


class Register:
    """One row of the table."""

    def __init__(self, path, name="register"):
        self._db = sqlite3.connect(path, timeout=10, isolation_level=None)  # each statement is a transaction
        self._name = name
        self._db.execute(CREATE)
        self._db.execute(FIRST, {"name": name})

    def write(self, value, token):
        """Writes the value for the leader with that fencing token, unless a later one has written."""
        changed = self._db.execute(ACCEPT, {"name": self._name, "value": value, "token": token}).rowcount
        if changed == 0:
            raise Refused(f"token {token} is of the past: token {self.read()[1]} has written")

    def read(self):
        """The value, and the token of who wrote it."""
        return self._db.execute("SELECT value, token FROM register WHERE name = ?", (self._name,)).fetchone()
