import torch
from task import input_t, output_t
from utils import close


def generate_input(rows: int, columns: int, kind: str, seed: int) -> input_t:
    generator = torch.Generator()
    generator.manual_seed(seed)
    x = torch.randn(rows, columns, generator=generator)
    return x * 10 if kind == "wide" else x, torch.empty(rows, columns), {"scale": 3.0}


def ref_kernel(data: input_t) -> output_t:
    x, into, options = data
    into[...] = x * options["scale"]
    return into, x.sum(dim=1)


def check_implementation(data: input_t, output: output_t):
    wanted = ref_kernel(data)
    for number, (got, want) in enumerate(zip(output, wanted, strict=True)):
        if reason := close(got, want):
            return False, f"output {number}: {reason}"
    return True, ""
