"""How Gunicorn serves the example: `gunicorn` in this directory finds this file."""

wsgi_app = "shop.wsgi"
bind = "127.0.0.1:8000"

# Requests mostly wait, for the card network and for the database, so each process has a few threads.
workers = 4
worker_class = "gthread"
threads = 4

# The project is loaded once, before the workers are forked.
preload_app = True

# A storm opens hundreds of connections in one instant; a full queue would refuse some of them.
backlog = 2048

# Seconds a connection may stay idle. A proxy in front must be the first to close: if we closed while it
# sends, it could not tell whether the request was executed. Gunicorn's default of 2 s invites just that.
keepalive = 75

# Its default place is one file per user, which several instances would fight over.
control_socket_disable = True
