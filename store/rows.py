"""How a noun becomes a row and a row a noun: the columns people filter by, and the rest as JSON."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from .clock import utc_now
from .database import Store, Value
from .errors import InputError, StoreError
from .models import Noun

N = TypeVar("N", bound=Noun)


@dataclass(frozen=True)
class Table(Generic[N]):
    """The table of one noun. Every row also has `id`, `seq` and `created_at` (the noun's own, else when it was saved).

    columns: the fields that are columns. derived: columns computed from the noun and not read back.
    """

    name: str
    noun: type[N]
    columns: tuple[str, ...]
    derived: Mapping[str, Callable[[N], Value]] = field(default_factory=dict)

    def insert(self, db: sqlite3.Connection, noun: N, *, keep_first: bool = False) -> bool:
        """Insert within the caller's transaction; whether a row was added.

        keep_first: a row with the same id is no error and stays as it is.
        """
        values = self._values(noun)
        names = ", ".join(values)
        marks = ", ".join("?" for _ in values)
        conflict = " ON CONFLICT (id) DO NOTHING" if keep_first else ""
        # WHERE true: without it SQLite reads ON CONFLICT as the join condition of the SELECT.
        sql = (
            f"INSERT INTO {self.name} ({names}, seq) "
            f"SELECT {marks}, (SELECT coalesce(max(seq), 0) + 1 FROM {self.name}) WHERE true{conflict}"
        )
        return db.execute(sql, tuple(values.values())).rowcount == 1

    def noun_of(self, row: sqlite3.Row) -> N:
        """The noun of a row. Raises StoreError for a row that is none, which only another program can have written."""
        try:
            fields: dict[str, Any] = json.loads(row["json"])
            fields.update({name: row[name] for name in self._own_columns()})
            return self.noun.model_validate(fields)
        except (ValidationError, ValueError) as error:
            raise unreadable(self.name, row["id"], error) from error

    def get(self, store: Store, id_: str) -> N | None:
        """The noun with that id, or None."""
        row = store.read_one(f"SELECT * FROM {self.name} WHERE id = ?", (id_,))
        return None if row is None else self.noun_of(row)

    def find(
        self,
        store: Store,
        where: Sequence[str] = (),
        parameters: Sequence[Value] = (),
        *,
        order: str,
        limit: int | None,
    ) -> list[N]:
        """The nouns that meet all conditions in `where`, in `order`, at most `limit`."""
        condition = " AND ".join(where) or "true"
        sql = f"SELECT * FROM {self.name} WHERE {condition} ORDER BY {order} LIMIT ?"
        return [self.noun_of(row) for row in store.read(sql, (*parameters, -1 if limit is None else limit))]

    def _own_columns(self) -> list[str]:
        always = [name for name in ("id", "created_at") if name in self.noun.model_fields]
        return [*always, *self.columns]

    def _values(self, noun: N) -> dict[str, Value]:
        try:
            fields: dict[str, Any] = json.loads(noun.model_dump_json())
        except ValueError as error:
            raise InputError(
                f"The {self.noun.__name__} holds what JSON cannot ({error})",
                value=noun.id,  # type: ignore[attr-defined]
                next_step="Give plain data, and text without broken Unicode.",
            ) from error
        values: dict[str, Value] = {"id": noun.id, "created_at": utc_now()}  # type: ignore[attr-defined]
        for name in self._own_columns():
            values[name] = getattr(noun, name)
            fields.pop(name, None)
        values.update({name: value(noun) for name, value in self.derived.items()})
        for name, value in values.items():
            if isinstance(value, float) and math.isnan(value):  # SQLite would store NULL.
                raise InputError(
                    f"{self.noun.__name__}.{name} is not a number",
                    value=values["id"],
                    next_step="Give None where there is no value.",
                )
        values["json"] = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        return values


def unreadable(table: str, id_: str, error: Exception) -> StoreError:
    """The error for a row that is no noun."""
    return StoreError(
        f"A row of table {table} cannot be read ({str(error).splitlines()[0]})",
        value=id_,
        next_step="Only another program can have written it; delete or repair the row, e.g. with sqlite-utils.",
    )
