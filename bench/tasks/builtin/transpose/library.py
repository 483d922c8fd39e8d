# /// kforecast 1
# task = "transpose"
# [[launch]]
# entry = "transpose"
# args = ["x"]
# ///


def transpose(x):
    return x.t().contiguous()
