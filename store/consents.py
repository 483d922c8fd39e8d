"""Which hosted models the user has agreed to send kernel sources to."""

from __future__ import annotations

from .clock import utc_now
from .database import Store
from .models import Noun
from .rows import Table


class Consent(Noun):
    """The user's consent, given once. `id`: the backend's name, e.g. `litellm:openai/gpt-5`, with its server where one
    is configured; `notice`: what was said."""

    id: str
    notice: str
    created_at: str


TABLE = Table("consents", Consent, ("notice",))


def given(store: Store, backend: str) -> bool:
    """Whether the user has agreed to that backend."""
    return TABLE.get(store, backend) is not None


def give(store: Store, backend: str, notice: str) -> None:
    """Record the consent; giving it again is no error."""
    with store.write() as db:
        TABLE.insert(db, Consent(id=backend, notice=notice, created_at=utc_now()), keep_first=True)
