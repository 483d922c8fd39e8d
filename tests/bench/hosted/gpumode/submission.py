from task import input_t, output_t


def custom_kernel(data: input_t) -> output_t:
    x, into, options = data
    into.copy_(x).mul_(options["scale"])
    return into, x.sum(-1)
