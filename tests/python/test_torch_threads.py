"""Threads, streams, and captures of the caller's own."""
import threading

import pytest
from torch_helpers import *  # noqa: F403

pytestmark = needs_gpu

THREADS, CALLS_EACH = 4, 200


def in_threads(body, count=THREADS):
    """body(k) on `count` threads at once; what one raises is raised here."""
    failed = []
    start = threading.Barrier(count)

    def run(k):
        try:
            start.wait()
            body(k)
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def work(x, w):
    return torch.relu(x @ w) + x


def on_its_own_stream(door, f, k):
    stream = torch.cuda.Stream()
    kept, want = [], []
    with torch.cuda.stream(stream):
        for i in range(CALLS_EACH):
            x, w = randn(16, 16, seed=1000 * k + i), randn(16, 16, seed=1000 * k + i + 500)
            kept.append(f(x, w))
            want.append(work(x, w))
        is_close(door, kept, want, f"thread {k}")
    stream.synchronize()


def test_threads_share_a_callable(door):
    f = door(work)
    for i in range(3):  # compiled here: Dynamo compiles under a lock of its own
        f(randn(16, 16, seed=i), randn(16, 16, seed=i + 7))
    with graphs_used():
        in_threads(lambda k: on_its_own_stream(door, f, k))


def test_threads_that_make_their_first_call_at_once(door):
    f = door(work)
    in_threads(lambda k: on_its_own_stream(door, f, k))


def test_threads_with_a_callable_each(door):
    callables = [door(work) for _ in range(THREADS)]
    if door.name == "backend":
        for f in callables:
            f(randn(16, 16), randn(16, 16, seed=1))
    with graphs_used(THREADS):
        in_threads(lambda k: on_its_own_stream(door, callables[k], k))


def test_threads_with_a_stateful_module_each(door):
    models = [mlp(seed=10 * k) for k in range(THREADS)]
    eager = [mlp(seed=10 * k) for k in range(THREADS)]
    callables = [door(model) for model in models]

    def body(k):
        with torch.cuda.stream(torch.cuda.Stream()):
            for i in range(25):
                f, theirs = callables[k], eager[k]
                models[k].zero_grad()
                theirs.zero_grad()
                f(randn(8, 32, seed=i)).square().sum().backward()
                theirs(randn(8, 32, seed=i)).square().sum().backward()
            same_gradients(door, models[k], theirs)
            torch.cuda.current_stream().synchronize()

    if door.name == "backend":
        for f in callables:
            f(randn(8, 32)).sum().backward()
    torch.cuda.synchronize()
    in_threads(body)


def test_other_work_of_other_threads_does_not_end_up_in_a_recording():
    """While one thread records, another allocates, launches and copies from the host: neither disturbs the other."""
    stop = threading.Event()
    wrong = []

    def other():
        with torch.cuda.stream(torch.cuda.Stream()):
            i = 0
            while not stop.is_set():
                x = torch.full((1 << 10,), float(i))
                if (x.to(DEVICE) * 2).sum().item() != 2 * i * 1024:
                    wrong.append(i)
                i = (i + 1) % 100

    thread = threading.Thread(target=other)
    thread.start()
    try:
        for round in range(10):
            f = rondo.torch.graphed(work, policy="always", name=f"round {round}")
            for i in range(6):
                x, w = randn(16, 16, seed=i), randn(16, 16, seed=i + 90)
                assert torch.equal(f(x, w), work(x, w)), f"round {round}, call {i}"
    finally:
        stop.set()
        thread.join()
    assert not wrong


def test_a_side_stream(door):
    f = door(work)
    side = torch.cuda.Stream()
    kept, want = [], []
    with graphs_used():
        for i in range(40):
            x, w = randn(16, 16, seed=i), randn(16, 16, seed=i + 70)
            want.append(work(x, w))
            if i % 3 == 0:
                kept.append(f(x, w))
                continue
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.cuda._sleep(100_000)
                y = f(x, w)
            torch.cuda.current_stream().wait_stream(side)
            for t in (x, w):
                t.record_stream(side)
            y.record_stream(torch.cuda.current_stream())
            kept.append(y)
        is_close(door, kept, want)


def test_streams_in_turns_without_waiting_for_each_other(door):
    f = door(work)
    streams = [torch.cuda.Stream() for _ in range(3)]
    kept, want = [[] for _ in streams], [[] for _ in streams]
    for i in range(60):
        with torch.cuda.stream(streams[i % 3]):
            x, w = randn(16, 16, seed=i), randn(16, 16, seed=i + 70)
            kept[i % 3].append(f(x, w))
            want[i % 3].append(work(x, w))
    torch.cuda.synchronize()
    is_close(door, kept, want)


def test_called_while_the_user_captures_it_runs_into_the_capture():
    f = rondo.torch.graphed(work, policy="always")
    x, w = randn(16, 16), randn(16, 16, seed=1)
    for _ in range(CALLS):
        f(x, w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = f(x, w)
    for i in range(5):
        x.copy_(randn(16, 16, seed=i + 20))
        graph.replay()
        assert torch.equal(y, work(x, w)), f"replay {i}"
    assert torch.equal(f(x, w), work(x, w))


def test_first_called_while_the_user_captures():
    f = rondo.torch.graphed(lambda x: x * 2 + 1, policy="always")
    x = randn(64)
    (x * 2 + 1).sum().item()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = f(x)
    for i in range(5):
        x.copy_(randn(64, seed=i))
        graph.replay()
        assert torch.equal(y, x * 2 + 1)
    agree(Graphed(), f, lambda x: x * 2 + 1, lambda i: (randn(64, seed=i),))


def test_the_compiled_function_inside_a_capture_of_the_users():
    f = torch.compile(work, backend="rondo", options={"policy": "always"})
    x, w = randn(16, 16), randn(16, 16, seed=1)
    for _ in range(CALLS):
        f(x, w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = f(x, w)
    for i in range(5):
        x.copy_(randn(16, 16, seed=i + 20))
        graph.replay()
        is_close(Backend(), y, work(x, w), f"replay {i}")


def test_hand_written_graphs_beside_it_are_left_alone(door):
    x = randn(32, 32)
    torch.relu(x @ x)
    graph = torch.cuda.CUDAGraph()
    side = torch.cuda.Stream()
    with torch.cuda.graph(graph, stream=side):
        y = torch.relu(x @ x)
    f = door(work)
    for i in range(CALLS):
        a, w = randn(16, 16, seed=i), randn(16, 16, seed=i + 3)
        x.copy_(randn(32, 32, seed=i))
        graph.replay()
        is_close(door, f(a, w), work(a, w), f"call {i}")
        same([y], [torch.relu(x @ x)], 1e-6, 1e-6, f"hand-written, call {i}")


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU; two are needed")
def test_two_devices_in_turns(door):
    f = door(lambda x: torch.tanh(x) * 2)
    for i in range(30):
        with torch.cuda.device(i % 2):
            x = randn(16, seed=i, device=f"cuda:{i % 2}")
            y = f(x)
            assert y.device == x.device
            is_close(door, y, torch.tanh(x) * 2, f"call {i}")


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one GPU; two are needed")
def test_input_of_another_device_than_the_current_one(door):
    f = door(lambda x: torch.tanh(x) * 2)
    for i in range(CALLS):
        x = randn(16, seed=i, device="cuda:1")
        is_close(door, f(x), torch.tanh(x) * 2, f"call {i}")
