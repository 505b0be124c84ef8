"""Counts requests, as an application does it that has Prometheus."""

from django.apps import AppConfig

from oncegate.django import answered
from oncegate.prometheus import RequestCounter


class ProjectConfig(AppConfig):
    name = "project"

    def ready(self):
        answered.connect(RequestCounter(), weak=False)
