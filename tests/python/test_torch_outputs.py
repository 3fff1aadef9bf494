"""What comes out belongs to the caller: it stays, it is not shared, and it aliases what eager's result aliases."""
import pytest
from torch_helpers import *  # noqa: F403

pytestmark = needs_gpu


def step(x):
    return torch.tanh(x * 2 + 1) @ x.t()


def test_outputs_of_earlier_calls_stay_valid(door, policy):
    f = door(step, policy)
    agree(door, f, step, lambda i: (randn(16, 16, seed=i),), calls=max(20, calls_for(policy)), graphs=policy == "always")


def test_outputs_of_a_module_stay_valid(door, policy):
    model = mlp()
    f = door(model, policy)
    with torch.no_grad():
        agree(door, f, model, lambda i: (randn(8, 32, seed=i),), calls=max(20, calls_for(policy)),
              graphs=policy == "always")


def test_the_same_input_twice_gives_two_results(door):
    f = door(step)
    with graphs_used():
        for i in range(CALLS):
            x = randn(8, 8, seed=i)
            y1 = f(x)
            y2 = f(x)
            assert not share_storage(y1, y2)
            y2.fill_(7)
            is_close(door, y1, step(x), f"call {i}, first result")


def test_a_function_takes_its_own_result(door, policy):
    f = door(lambda x: torch.sin(x) + 0.5, policy)
    g = lambda x: torch.sin(x) + 0.5
    for i in range(calls_for(policy)):
        x = randn(33, seed=i)
        is_close(door, f(f(f(x))), g(g(g(x))), f"call {i}")


def test_a_loop_feeds_each_result_back(door):
    f = door(lambda x: x * 0.9 + torch.cos(x))
    x = y = randn(4, 100)
    mine, eager = [], []
    with graphs_used():
        for _ in range(40):
            x = f(x)
            y = y * 0.9 + torch.cos(y)
            mine.append(x)
            eager.append(y)
    is_close(door, mine, eager)


def test_two_functions_feed_each_other(door, policy):
    def first(x):
        return torch.relu(x) + 1

    def second(x, w):
        return x @ w, x.sum(0)

    f, g = door(first, policy), door(second, policy)
    kept, want = [], []
    for i in range(calls_for(policy)):
        x, w = randn(8, 8, seed=i), randn(8, 8, seed=i + 500)
        y, s = g(f(x), w)
        kept.append([f(y), s])
        y, s = second(first(x), w)
        want.append([first(y), s])
    is_close(door, kept, want)


def test_results_kept_over_collections_and_other_allocations(door):
    f = door(step)
    kept, want = [], []
    with graphs_used():
        for i in range(30):
            x = randn(64, 64, seed=i)
            kept.append(f(x))
            want.append(step(x))
            if i % 5 == 4:
                del kept[0], want[0]
                torch.cuda.empty_cache()
                torch.full((1 << 20,), float("nan"), device=DEVICE)
    is_close(door, kept, want)


def test_an_output_that_is_the_input(door):
    f = door(lambda x: (x, x * 2))
    with graphs_used():
        for i in range(CALLS):
            x = randn(8, seed=i)
            same_x, y = f(x)
            assert share_storage(same_x, x)
            same_x.add_(1)
            is_close(door, [x, y], [randn(8, seed=i) + 1, randn(8, seed=i) * 2], f"call {i}")


def test_outputs_that_are_views_of_an_input(door):
    def views(x):
        return x[1:3], x.t(), x.view(-1)[2:], x.sum()

    f = door(views)
    with graphs_used():
        for i in range(CALLS):
            x = randn(4, 6, seed=i)
            got, want = f(x), views(x)
            for a, b in zip(got[:3], want[:3]):
                assert share_storage(a, x)
                assert a.storage_offset() == b.storage_offset() and a.stride() == b.stride()
            is_close(door, got, want, f"call {i}")
            got[1].zero_()
            assert not x.any()


def test_two_outputs_that_share_storage(door):
    def shared(x):
        h = x * 2
        return h, h[1:], h.t()

    f = door(shared)
    with graphs_used():
        for i in range(CALLS):
            x = randn(4, 4, seed=i)
            h, tail, turned = got = f(x)
            is_close(door, got, shared(x), f"call {i}")
            assert share_storage(h, tail) and share_storage(h, turned)
            h.fill_(3)
            assert (tail == 3).all() and (turned == 3).all()


def test_the_same_tensor_returned_twice(door):
    def twice(x):
        h = x + 1
        return h, h

    f = door(twice)
    for i in range(CALLS):
        a, b = f(randn(5, seed=i))
        a.fill_(i)
        assert (b == i).all()


def test_an_output_that_is_a_parameter(door):
    class Gives(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(randn(6, 6, seed=3))

        def forward(self, x):
            return self.weight, x @ self.weight

    model = Gives()
    f = door(model)
    with torch.no_grad(), graphs_used():
        for i in range(CALLS):
            weight, y = f(randn(3, 6, seed=i))
            assert share_storage(weight, model.weight)
            is_close(door, y, randn(3, 6, seed=i) @ model.weight, f"call {i}")
            model.weight.mul_(0.9)
            assert torch.equal(weight, model.weight)


def test_a_tensor_made_inside_is_new_each_time(door):
    def made(x):
        return torch.arange(8, device=x.device), torch.zeros(3, device=x.device), x + 1

    f = door(made)
    with graphs_used():
        for i in range(CALLS):
            numbers, zeros, y = f(randn(4, seed=i))
            is_close(door, (numbers, zeros, y), made(randn(4, seed=i)), f"call {i}")
            numbers.fill_(-1)
            zeros.fill_(-1)


def test_results_that_are_no_tensors(door):
    def mixed(x, n):
        return x * n, n + 1, None, "text", x.shape[0], (True, [2.5])

    f = door(mixed)
    agree(door, f, mixed, lambda i: (randn(4 + i % 2, seed=i), 3))


def test_an_output_larger_than_the_blocks_of_the_allocator(door):
    def large(x):
        return x.repeat(3 << 18) + 1, x.sum()  # 12 MiB: a block of its own

    agree(door, door(large), large, lambda i: (randn(4, seed=i),), tolerance=1e-6)


def test_results_that_are_dropped_do_not_pile_up(door):
    f = door(lambda x: torch.exp(x) + 1)
    x = randn(1 << 16)
    for _ in range(CALLS):
        f(x)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(200):
        f(x)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() <= before + 2 * x.nbytes


def test_a_result_with_strides_of_its_own(door):
    def strided(x):
        return (x + 1).t(), (x * 2)[:, ::2], x.transpose(0, 1).contiguous()

    got = agree(door, door(strided), strided, lambda i: (randn(6, 10, seed=i),))
    want = strided(randn(6, 10))
    assert [y.stride() for y in got[-1]] == [y.stride() for y in want]


@pytest.mark.parametrize("outputs", [1, 7, 60])
def test_many_outputs(door, outputs):
    def many(x):
        return [x * k for k in range(outputs)]

    agree(door, door(many), many, lambda i: (randn(9, seed=i),), calls=20)
