"""Our answers as responses of Django."""

from django.http import HttpResponse

from oncegate.answer import Answer


def response_of(answer: Answer) -> HttpResponse:
    """The response; a header that comes in several lines means the same in one."""
    response = HttpResponse(answer.body, status=answer.status)
    del response["Content-Type"]
    for name, value in answer.headers:
        response[name] = f"{response[name]}, {value}" if response.has_header(name) else value
    return response
