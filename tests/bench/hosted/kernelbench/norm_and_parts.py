import torch
from torch import nn


class Model(nn.Module):
    """A weighted norm of rows, and which column is the largest: two outputs, one of whole numbers."""

    def __init__(self, columns, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(columns))
        self.eps = eps

    def forward(self, x, scale):
        weighted = x * self.weight * scale
        return weighted / (weighted.norm(dim=1, keepdim=True) + self.eps), x.argmax(dim=1)


def get_inputs():
    return [torch.randn(40, 33), 2.5]


def get_init_inputs():
    return [33, 1e-6]
