"""Callers are named by their token; `revoked` is nobody's any more."""

from django.contrib.auth.models import User
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed


class TokenAuthentication(BaseAuthentication):
    def authenticate(self, request):
        _, _, token = request.headers.get("Authorization", "").partition("Token ")
        if not token:
            return None
        if token == "revoked":
            raise AuthenticationFailed
        return User.objects.get_or_create(username=token)[0], token

    def authenticate_header(self, request):
        return "Token"
