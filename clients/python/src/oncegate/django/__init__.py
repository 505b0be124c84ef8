"""Views of Django and Django REST Framework, guarded in their own transaction.

INSTALLED_APPS = [..., "oncegate.django"]

@idempotent
@api_view(["POST"])
def create_payment(request): ...
"""

from oncegate.attempt import Attempt
from oncegate.django.decorator import exempt, idempotent
from oncegate.django.middleware import IdempotencyMiddleware
from oncegate.django.signals import answered

__all__ = ["Attempt", "IdempotencyMiddleware", "answered", "exempt", "idempotent"]
