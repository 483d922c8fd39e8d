"""The learned forecaster as a use case: which trained model holds for a question, and training one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ..store.database import Store
from ..store.models import Language
from ..store.paths import store_path
from ..surrogate import learned as room
from ..surrogate.learned.model import Model, load, save
from ..surrogate.learned.train import train
from .datasets import newest, opened, sample_of

SHIPPED = Path(room.__file__).with_name("trained.json")
"""The model that comes with the package, where one does."""


class TrainResult(BaseModel):
    """What came of training. trained_for: (language, device kind) pairs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    summary: str
    path: str
    kernels: int
    tasks: int
    trained_for: tuple[tuple[str, str], ...]
    next: str


def own_path(store: Store | None = None) -> Path:
    """Where the model stands that the user trained: beside the store."""
    return (store_path() if store is None else store.path).with_name("learned.json")


def model_for(store: Store, languages: Sequence[Language], kind: str) -> Model | None:
    """The model trained for all the languages on that kind of device, the user's own before the shipped one; or None.

    Raises InputError for a file that is damaged or of another version.
    """
    for path in (own_path(store), SHIPPED):
        if path.exists():
            model = _load(path, path.stat().st_mtime_ns)
            if all((language, kind) in model.trained_for for language in languages):
                return model
    return None


@lru_cache(maxsize=4)
def _load(path: Path, changed: int) -> Model:
    del changed  # the key that makes a retrained model be read again
    return load(path)


def train_learned(*, on: str | None = None, device: str | None = None, out: Path | None = None) -> TrainResult:
    """Train `learned` on what is measured and keep it beside the store, or in the file `out`.

    on: see `datasets.opened`. device: only this one. Raises InputError where too little is measured.
    """
    with opened(on) as store:
        samples = [sample_of(kernel, measurement) for kernel, measurement in newest(store, device=device)]
    model = train(samples)
    path = (out or own_path()).expanduser().absolute()
    temporary = path.with_name(f"{path.name}.new")
    save(model, temporary)
    temporary.replace(path)
    pairs = ", ".join(f"{language} on {kind}" for language, kind in model.trained_for)
    return TrainResult(
        summary=f"Trained on {model.kernels} kernels of {model.tasks} tasks: {pairs}.",
        path=str(path),
        kernels=model.kernels,
        tasks=model.tasks,
        trained_for=model.trained_for,
        next="See what it is worth: `kforecast eval learned --split task`.",
    )
