# /// kforecast 1
# task = "scan"
# [[launch]]
# entry = "scan"
# args = ["x"]
# ///
import torch


def scan(x):
    return torch.cumsum(x, dim=0)
