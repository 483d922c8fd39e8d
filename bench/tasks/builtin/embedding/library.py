# /// kforecast 1
# task = "embedding"
# [[launch]]
# entry = "embedding"
# args = ["idx", "table"]
# ///
from torch.nn import functional


def embedding(idx, table):
    return functional.embedding(idx, table)
