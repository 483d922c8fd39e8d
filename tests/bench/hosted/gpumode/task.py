from typing import TypeVar

import torch

input_t = TypeVar("input_t", bound=tuple[torch.Tensor, torch.Tensor, dict])
output_t = TypeVar("output_t", bound=tuple[torch.Tensor, torch.Tensor])
