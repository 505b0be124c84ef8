"""Stands for the card network: slow enough for two requests to overlap, and it cannot be rolled back."""

import time

from django.conf import settings


def authorise(amount, currency, key=None):
    """Authorises every payment after PAYMENT_DELAY_MS milliseconds; a real one knows a repeat by the key."""
    time.sleep(settings.PAYMENT_DELAY_MS / 1000)
