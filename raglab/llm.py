"""placeholder"""

from contextlib import contextmanager
from contextvars import ContextVar


@contextmanager
def listen():
    yield []
