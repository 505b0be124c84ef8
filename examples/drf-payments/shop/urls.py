"""The routes of the example."""

from django.urls import path

from payments import views

urlpatterns = [
    path("api/payments", views.create_payment),
    path("api/payments/<int:payment_id>", views.show_payment, name="payment"),
    path("api/naive/payments", views.create_payment_naive),
    path("api/get-or-create/payments", views.create_payment_get_or_create),
    path("api/once/payments", views.create_payment_once),
    path("count", views.count_payments),
    path("healthz", views.healthz),
]
