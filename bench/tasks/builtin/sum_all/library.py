# /// kforecast 1
# task = "sum_all"
# [[launch]]
# entry = "sum_all"
# args = ["x"]
# ///
import torch


def sum_all(x):
    return torch.sum(x, dim=0, keepdim=True)
