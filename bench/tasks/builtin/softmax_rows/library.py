# /// kforecast 1
# task = "softmax_rows"
# [[launch]]
# entry = "softmax_rows"
# args = ["x"]
# ///
import torch


def softmax_rows(x):
    return torch.softmax(x, dim=1)
