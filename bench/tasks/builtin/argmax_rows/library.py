# /// kforecast 1
# task = "argmax_rows"
# [[launch]]
# entry = "argmax_rows"
# args = ["x"]
# ///
import torch


def argmax_rows(x):
    return torch.argmax(x, dim=1).to(torch.int32)
