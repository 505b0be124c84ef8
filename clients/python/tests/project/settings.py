"""A project with a guarded payment in every form; what differs between tests comes from the environment."""

import json
import os

DEBUG = False
ALLOWED_HOSTS = ["*"]
SECRET_KEY = "nothing is signed but test sessions"

ROOT_URLCONF = "project.urls"
WSGI_APPLICATION = "project.wsgi.application"
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "rest_framework",
    "oncegate.django",
    "project",
]
MIDDLEWARE = ["django.middleware.common.CommonMiddleware", "project.crash.CrashMiddleware"]
if os.environ.get("MIDDLEWARE") == "1":
    MIDDLEWARE.append("oncegate.django.IdempotencyMiddleware")
if os.environ.get("MIDDLEWARE") == "first":
    MIDDLEWARE.insert(0, "oncegate.django.IdempotencyMiddleware")

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ["DATABASE_HOST"],
        "PORT": os.environ["DATABASE_PORT"],
        "NAME": os.environ["DATABASE_NAME"],
        "USER": os.environ["DATABASE_USER"],
        "PASSWORD": os.environ["DATABASE_PASSWORD"],
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "ATOMIC_REQUESTS": os.environ.get("ATOMIC_REQUESTS") == "1",
        "OPTIONS": {"server_side_binding": os.environ.get("SERVER_SIDE_BINDING") == "1"},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["project.tokens.TokenAuthentication"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
}

ONCEGATE = json.loads(os.environ.get("ONCEGATE", "{}"))

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["stderr"], "level": "WARNING"},
}
