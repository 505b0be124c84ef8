"""How a view is guarded: the decorator's arguments, over the setting ONCEGATE, over the defaults."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from oncegate import options as core
from oncegate.options import OptionInvalid, chosen_options


@dataclass(frozen=True)
class Options(core.Options):
    """Each may be a key of the setting ONCEGATE and an argument of the decorator. By default, callers are told apart
    by the authenticated user, else by the Authorization header."""

    using: str = "default"
    """The database that has the schema `oncegate` and the view's tables."""


def options(overrides: dict[str, Any]) -> Options:
    """The options of one view; what cannot be kept is refused when the view is first called."""
    try:
        return chosen_options(Options(), {**getattr(settings, "ONCEGATE", {}), **overrides})
    except OptionInvalid as error:
        raise ImproperlyConfigured(f"ONCEGATE {error}") from None
