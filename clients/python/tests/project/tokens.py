"""Callers are named by their token, which is revoked when its user is not active any more."""

from django.contrib.auth.models import User
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed


class TokenAuthentication(BaseAuthentication):
    def authenticate(self, request):
        _, _, token = request.headers.get("Authorization", "").partition("Token ")
        if not token:
            return None
        user, _ = User.objects.get_or_create(username=token)
        if not user.is_active:
            raise AuthenticationFailed
        return user, token

    def authenticate_header(self, request):
        return "Token"
