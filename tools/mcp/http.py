"""The same server over HTTP: on this machine for everybody on it, elsewhere only for who has the token."""

from __future__ import annotations

import hmac
import socket

from starlette.types import ASGIApp, Receive, Scope, Send

from ...store.errors import DeviceError, InputError
from .server import KforecastServer

LOCAL = ("127.0.0.1", "localhost", "::1")
LEAST_TOKEN = 16


class BearerOnly:
    """Lets through only requests that carry `Authorization: Bearer TOKEN`."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            shown = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            if not hmac.compare_digest(shown, self._wanted):
                headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b""})
                return
        await self._app(scope, receive, send)


def http_app(server: KforecastServer, *, host: str, token: str | None) -> ASGIApp:
    """The server as an ASGI application. On a local address requests must also name a local host (DNS rebinding)."""
    app: ASGIApp = server.streamable_http_app(host=host)
    return app if token is None else BearerOnly(app, token)


def check_address(host: str, token: str | None) -> None:
    """Raise InputError for an address that others reach without a token, and for a token that can be guessed."""
    if token is not None and len(token) < LEAST_TOKEN:
        step = "Make one: python3 -c 'import secrets; print(secrets.token_urlsafe())'."
        raise InputError(f"a token has at least {LEAST_TOKEN} characters", value=f"{len(token)} given", next_step=step)
    if host not in LOCAL and token is None:
        step = "Give a token as well, in KFORECAST_MCP_TOKEN; better stay on 127.0.0.1 and come through ssh -L."
        raise InputError("whoever reaches this address could run kernels here", value=host, next_step=step)


def serve_http(server: KforecastServer, *, host: str, port: int, token: str | None) -> None:
    """Serve at http://HOST:PORT/mcp until interrupted. Raises InputError as `check_address`, DeviceError for a port in
    use."""
    import uvicorn

    check_address(host, token)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            step = "Choose another with --port, or end what listens there."
            raise DeviceError(
                f"the address cannot be had ({error.strerror})", value=f"{host}:{port}", next_step=step
            ) from error
        config = uvicorn.Config(http_app(server, host=host, token=token), log_level="warning", access_log=False)
        uvicorn.Server(config).run(sockets=[listener])
