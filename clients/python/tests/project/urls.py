"""The routes; `wrapped` and `listed` are guarded here, where URLs are made."""

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from oncegate.django import idempotent
from project import views

router = SimpleRouter(trailing_slash=False)
router.register("payments", views.Payments, basename="payments")

urlpatterns = [
    path("inside", views.inside),
    path("outside", views.outside),
    path("between", views.between),
    path("method", views.MethodView.as_view()),
    path("class", views.ClassView.as_view()),
    path("wrapped", idempotent(views.UnguardedView.as_view())),
    path("unguarded", views.UnguardedView.as_view()),
    path("listed", idempotent(views.Payments.as_view({"post": "unguarded"}))),
    path("", include(router.urls)),
    path("plain", views.plain),
    path("plain-view", views.PlainView.as_view()),
    path("plain-unguarded", views.plain_unguarded),
    path("exempted", views.exempted),
    path("waits", views.waits),
    path("entered", views.entered),
    path("transfer-unguarded", views.transfer_unguarded),
    path("transfer-entered", views.transfer_entered),
    path("transfer-claimed", views.transfer_claimed),
    path("strict", views.strict),
    path("returns", views.returns),
    path("lengthy", views.lengthy),
    path("streams", views.streams),
    path("rolls-back", views.rolls_back),
    path("hooked", views.hooked),
    path("orphaned", views.orphaned),
    path("orphaned-entered", views.orphaned_entered),
    path("metrics", views.metrics),
    path("healthz", views.healthz),
]
