# /// kforecast 1
# task = "gemv"
# [[launch]]
# entry = "gemv"
# args = ["A", "x"]
# ///
import torch


def gemv(A, x):
    return torch.mv(A, x)
