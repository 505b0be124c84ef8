"""What the guard of FastAPI and Starlette refuses before it serves, and how it ends a claim that nobody waits for."""

import asyncio
from types import SimpleNamespace

import pytest
from sqlalchemy import URL
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware

from oncegate import verb
from oncegate.options import OptionInvalid, Options
from oncegate.reading import Reading
from oncegate.starlette import IdempotencyMiddleware, attempt, idempotent, session
from oncegate.starlette.gate import Gate
from oncegate.starlette.records import Records
from oncegate.starlette.running import all_to_their_end
from oncegate.starlette.transaction import Database

ENGINE = create_async_engine("postgresql+psycopg://")


async def endpoint(request): ...


def test_what_runs_in_a_thread_or_is_made_while_it_leaves_is_refused():
    def plain(request): ...

    async def generator(request):
        yield b""

    for refused in (plain, generator, "a name"):
        with pytest.raises(TypeError, match="not an async def"):
            idempotent(refused)


def test_an_option_that_there_is_not_is_refused_where_it_is_written():
    with pytest.raises(OptionInvalid, match="did you mean 'lease'"):
        idempotent(leese=60)


def middleware_of(*others, **arguments):
    app = Starlette(middleware=[Middleware(IdempotencyMiddleware, **{"engine": ENGINE, **arguments}), *others])
    app.build_middleware_stack()


@pytest.mark.parametrize(
    ("others", "arguments", "text"),
    [
        ([Middleware(GZipMiddleware)], {}, "must be the innermost"),
        ([], {"engine": SimpleNamespace(dialect=SimpleNamespace(driver="asyncpg"))}, "the driver"),
        ([], {"lease": 0}, "lease 0 s is out of range"),
        ([], {"trust_gateway": "short"}, "trust_gateway has 5 characters"),
    ],
    ids=["not innermost", "another driver", "no lease", "a short secret"],
)
def test_a_middleware_that_could_not_keep_its_word_is_refused_at_the_start(others, arguments, text):
    with pytest.raises((RuntimeError, ValueError), match=text):
        middleware_of(*others, **arguments)
    middleware_of()


def test_an_observer_that_fails_costs_no_answer(caplog):
    def broken(route, outcome, *, is_anonymous):
        raise ZeroDivisionError

    Gate(None, Options(), broken).observe("/inside", "executed", False)
    assert "the observer of guarded requests has failed" in caplog.text


def test_outside_of_a_request_there_is_neither_session_nor_attempt():
    for call in (session, lambda: asyncio.to_thread(attempt), lambda: idempotent(endpoint)(None)):
        with pytest.raises(RuntimeError, match="no IdempotencyMiddleware"):
            asyncio.run(call())


def test_a_claim_whose_request_is_cancelled_is_withdrawn(service, monkeypatch):
    claim = verb.claim

    def slow(cursor, *arguments, **options):
        claimed = claim(cursor, *arguments, **options)
        cursor.execute("SELECT 1 FROM pg_sleep(0.5)", ())
        return claimed

    monkeypatch.setattr(verb, "claim", slow)
    state = "SELECT state FROM oncegate.records"

    async def scenario():
        postgres = service.postgres
        address = {"host": "127.0.0.1", "port": postgres.port, "username": "postgres", "password": postgres.password}
        engine = create_async_engine(URL.create("postgresql+psycopg", database=service.database, **address))
        records = Records(Database(engine, AsyncSession), Options())
        claiming = asyncio.create_task(records.claim(Reading("python", "key", b"\x01", "POST /")))
        while service.query(state) != [("in_flight",)]:
            await asyncio.sleep(0)
        claiming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await claiming
        await all_to_their_end()
        await engine.dispose()

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert service.query(state) == []
