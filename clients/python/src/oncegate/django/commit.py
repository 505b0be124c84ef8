"""When the statement that completes may commit as well: a round trip of every guarded request.

`SELECT oncegate.complete(...); COMMIT` is one string. An error of the first statement, or an aborted transaction, keeps
the server from the second. Django's own commit comes right behind it, at the end of the outermost block: psycopg goes
by what the server said last, finds that no transaction is open and sends nothing, and Django calls its hooks.
"""

from typing import Any

from psycopg import ClientCursor


def may_commit(connection: Any) -> bool:
    """Whether the block that we are in, and no block around it, ends the transaction of this connection of Django.

    Django notes an identifier for each block inside of another, also where it was in a transaction before any block.
    Where parameters are bound on the server, a string has one statement.
    """
    factory = getattr(connection.connection, "cursor_factory", None)
    binds_itself = isinstance(factory, type) and issubclass(factory, ClientCursor)
    return binds_itself and not connection.savepoint_ids
