"""Tunables: the configurations a header allows, the default one, and the user's settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from pydantic import Field

from ...store.errors import InputError
from ...store.models import Noun, Sizes
from .expression import INT64_MAX, INT64_MIN, Expression
from .names import CONSTANTS, check_known, suggestion

MAX_TUNABLES = 64


class Tune(Noun):
    """The header's `[tune]`: for each tunable its values, the first being the default, and the conditions on them."""

    values: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    when: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises InputError for an empty list, a repeated value, one beyond 64 bits, or a condition on other names."""
        if len(self.values) > MAX_TUNABLES:
            raise InputError(
                "too many tunables", value=len(self.values), next_step=f"Declare at most {MAX_TUNABLES} of them."
            )
        for name, values in self.values.items():
            if not values:
                raise InputError(
                    "a tunable has no values", value=name, next_step="List at least one; the first is the default."
                )
            for value in values:
                if not INT64_MIN <= value <= INT64_MAX:
                    raise InputError(
                        f"a value of tunable {name} does not fit into 64 bits",
                        value=value,
                        next_step="Use a smaller one.",
                    )
                if values.count(value) > 1:
                    raise InputError(
                        f"tunable {name} lists a value twice", value=value, next_step="Remove one of the two."
                    )
        for condition in self.when:
            names = Expression.parse(condition, conditions=True).names
            check_known(names, [*self.values, *CONSTANTS], f"when {condition!r}")

    def broken_condition(self, configuration: Mapping[str, int], constants: Mapping[str, int]) -> str | None:
        """The first condition that the configuration breaks, with its values, or None.

        A condition on something still unknown (a device constant where there is no device) breaks nothing.
        """
        values = {**constants, **configuration}
        for condition in self.when:
            expression = Expression.parse(condition, conditions=True)
            if expression.names <= values.keys() and not expression.evaluate(values):
                return f"{condition}{expression.at(values)}"
        return None


def configurations(tune: Tune, constants: Mapping[str, int] | None = None) -> Iterator[Sizes]:
    """Every configuration that all conditions allow, lazily, the default's values first and the last tunable fastest.

    constants: the device's SMEM_MAX, SM_COUNT and WARP, as far as known; conditions on unknown ones are taken to hold.
    """
    names = list(tune.values)
    chosen: Sizes = {}

    def extend(position: int) -> Iterator[Sizes]:
        # Conditions cut a branch as soon as their names are chosen, so that a sparse product is not walked in full.
        if tune.broken_condition(chosen, constants or {}) is not None:
            return
        if position == len(names):
            yield dict(chosen)
            return
        for value in tune.values[names[position]]:
            chosen[names[position]] = value
            yield from extend(position + 1)
            del chosen[names[position]]

    return extend(0)


def configure(
    tune: Tune, settings: Mapping[str, int] | None = None, constants: Mapping[str, int] | None = None
) -> Sizes:
    """One configuration: the defaults, with `settings` in their place.

    Raises InputError for a setting that the header does not list, and for a configuration that breaks a condition.
    """
    chosen = {name: values[0] for name, values in tune.values.items()}
    for name, value in (settings or {}).items():
        if name not in tune.values:
            raise InputError("there is no such tunable", value=name, next_step=suggestion(name, tune.values))
        if value not in tune.values[name]:
            listed = ", ".join(map(str, tune.values[name]))
            raise InputError(
                f"tunable {name} does not list this value",
                value=value,
                next_step=f"Listed: {listed}. Add it to [tune], or choose one of them.",
            )
        chosen[name] = value
    broken = tune.broken_condition(chosen, constants or {})
    if broken is not None:
        which = "these settings break" if settings else "the default configuration (first values) breaks"
        raise InputError(
            f"{which} a condition of `when`",
            value=broken,
            next_step="Choose other values." if settings else "Put values first that satisfy every condition.",
        )
    return chosen


def parse_settings(items: Iterable[str]) -> Sizes:
    """`NAME=VALUE` strings, as `--set` takes them. Raises InputError for anything else and for a name set twice."""
    settings: Sizes = {}
    for item in items:
        match = re.fullmatch(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*([+-]?[0-9]{1,19})\s*", item, re.ASCII)
        if match is None:
            raise InputError("not a setting", value=item, next_step="Write NAME=VALUE with a whole number.")
        if match[1] in settings:
            raise InputError("a tunable is set twice", value=match[1], next_step="Set it once.")
        settings[match[1]] = int(match[2])
    return settings
