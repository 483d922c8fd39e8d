"""A search's configuration is kept whole: a later version's defaults change no search of before."""

from __future__ import annotations

import json

from kforecast.tools.search.budget import Budget
from kforecast.tools.search.events import Created, SearchConfig, from_row, to_row


def test_defaults_too_are_written() -> None:
    config = SearchConfig(task_id="t", task_name="t", seed_id="k", device="cpu", budget=Budget(measurements=1))
    row = to_row(Created(search_id="s_1", source_id="k", config=config), 0)
    assert json.loads(row.json)["config"]["policy"] == config.policy
    assert set(json.loads(row.json)["config"]) == set(SearchConfig.model_fields)
    read = from_row(row)
    assert isinstance(read, Created) and read.config == config
