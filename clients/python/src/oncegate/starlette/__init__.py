"""Endpoints of FastAPI and Starlette, guarded in the transaction of their own SQLAlchemy session.

app.add_middleware(IdempotencyMiddleware, engine=create_async_engine("postgresql+psycopg://..."))

@app.post("/orders", status_code=201)
@idempotent
async def create_order(order: Order, session: Annotated[AsyncSession, Depends(session)]): ...
"""

from oncegate.attempt import Attempt
from oncegate.starlette.decorator import idempotent
from oncegate.starlette.exchange import attempt, session
from oncegate.starlette.middleware import IdempotencyMiddleware

__all__ = ["Attempt", "IdempotencyMiddleware", "attempt", "idempotent", "session"]
