# /// kforecast 1
# task = "histogram"
# [[launch]]
# entry = "histogram"
# args = ["x", "BINS"]
# ///
import torch


def histogram(x, bins):
    return torch.bincount(x, minlength=bins).to(torch.int32)
