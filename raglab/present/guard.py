"""Who may look: those who have the address, with its token.

The token is made anew at every start.  The first visit trades it for a cookie and drops it from the
address, which a projector would show to everyone.  Without the cookie nothing is served: no page,
no file, no kernel.  voila has a token too, which leaves files open; so this one stands before every
handler.  It is asked for even on this machine: any web page that is open in a browser here, and any
other user, could start kernels otherwise.

Left out: encryption.  In a network that is not yours, what is shown can be read on the way.
"""

from __future__ import annotations

import hmac
from typing import Any

from jupyter_core.utils import ensure_async
from voila.handler import VoilaHandler

SEATS = 8  # kernels at a time: each may hold a model and an index


class Guard:
    """Stands before a tornado handler: without the cookie, whatever is asked is refused."""

    async def prepare(self) -> None:
        handler: Any = self
        token, port = handler.settings["raglab_token"], handler.settings["raglab_port"]
        handler.set_header("Content-Security-Policy", policy(handler.request.host))
        if same(handler.get_query_argument("token", ""), token):
            # Lax, not Strict: a link in a message may lead here.
            handler.set_cookie(f"raglab-{port}", token, httponly=True, samesite="Lax")
            handler.redirect("/")
        elif not same(handler.get_cookie(f"raglab-{port}", ""), token):
            refuse(handler, 403, "Use the whole address that raglab printed, with its token.")
        elif isinstance(self, VoilaHandler) and len(handler.kernel_manager) >= SEATS:
            refuse(handler, 503, f"{SEATS} pages are open, as many as fit: close one, then reload.")
        else:
            await ensure_async(super().prepare())  # type: ignore[misc]


def same(offered: str, token: str) -> bool:
    """Compared in a time that tells nothing of where they differ."""
    return hmac.compare_digest(offered.encode(), token.encode())


def refuse(handler: Any, status: int, words: str) -> None:
    handler.set_status(status)
    handler.set_header("Content-Type", "text/plain; charset=utf-8")
    handler.finish(words)


def policy(host: str) -> str:
    """What the browser may load: from here alone, whatever a notebook's output asks for."""
    here = f"'self' data: blob: ws://{host}"
    return f"default-src {here} 'unsafe-inline' 'unsafe-eval'; frame-ancestors 'none'"


def guarded(handler: type) -> type:
    return type(handler.__name__, (Guard, handler), {})
