"""rondo._core on the fake driver: what a call does, what comes out when something fails, who keeps what alive."""

import gc
import json
import os
import pickle
import subprocess
import sys
import threading
import weakref

import pytest

import fake_gpu
import rondo
from rondo import _core

pytestmark = pytest.mark.skipif(not fake_gpu.is_there, reason="RONDO_LIBCUDA is not the fake driver")

IN, OUT, INOUT, LIVE, FIXED, MADE = range(6)
BYTES, F16, BF16, F32, F64 = range(5)
N = 8


@pytest.fixture(scope="module", autouse=True)
def gpu():
    if fake_gpu.is_there:
        fake_gpu.start()


@pytest.fixture
def stream():
    return fake_gpu.new_stream()


class Doubled:
    """y = 2 x, as a copy and a kernel, where y is what it allocates."""

    factor = 2.0  # of the graph

    def __init__(self):
        self.runs, self.captures, self.proofs, self.made = 0, 0, 0, []
        self.result = None

    def launch(self, stream, x, y, factor=2.0):
        fake_gpu.copy(stream, x, y, N)
        fake_gpu.scale(stream, y, N, factor)

    def run(self, stream, values, prove):
        self.runs += 1
        self.proofs += prove
        self.result = fake_gpu.Memory(N)
        self.launch(stream, values[0], self.result.address)
        return [self.result.address] if prove else None

    def capture(self, values, kinds):
        self.captures += 1
        y = fake_gpu.Memory(N)
        out = y.address if kinds[1] == MADE else values[1]
        graph = fake_gpu.Graph(lambda s: self.launch(s, values[0], out, self.factor))
        owner = Owner(graph, y)
        return graph.handle, owner, [y.address], [(y.address, y.bytes)]

    def make(self):
        self.result = fake_gpu.Memory(N)
        self.made.append(self.result.address)
        return [self.result.address]


class Owner:
    all = weakref.WeakSet()

    def __init__(self, *what):
        self.what = what
        Owner.all.add(self)


def new_region(name, **options):
    return _core.Region(name, json.dumps({"remember": False, **options}))


def new_frame(region):
    return _core.Frame(region, [IN, MADE], [4 * N, 4 * N], [F32, F32])


def numbers(k):
    return [float(k + i) for i in range(N)]


def doubled(k):
    return [2 * x for x in numbers(k)]


def the_report(region):
    (one,) = json.loads(region.report())["regions"]
    return one


def reasons(region):
    one = the_report(region)
    return " | ".join([r["reason"] for r in one["recordings"]] + one["fallbacks"])


# ---------------------------------------------------------------- calls
def test_a_plain_call_is_run_with_the_stream_and_the_values(stream):
    seen = []

    class Work(Doubled):
        def run(self, *arguments):
            seen.append(arguments)

    region = new_region("plain", policy="never")
    frame = _core.Frame(region, [IN, LIVE, FIXED, MADE], [16, 8, 4, 16], [F32, F64, BYTES, F32])
    assert frame(Work(), stream, 4096, 2**64 - 1, 7, 0) is False
    assert seen == [(stream, (4096, 2**64 - 1, 7, 0), False)]


def test_a_call_that_comes_again_is_recorded_proved_and_replayed_with_results_of_its_own(stream):
    work, region = Doubled(), new_region("replayed", policy="always")
    frame = new_frame(region)
    results, replayed = [], []
    for k in range(6):
        x = fake_gpu.Memory(N, numbers(k))
        replayed.append(frame(work, stream, x.address, 0))
        results.append(work.result)
    assert replayed == [False, False, True, True, True, True]  # the second one proves the recording
    assert [r.read() for r in results] == [doubled(k) for k in range(6)]
    assert (work.runs, work.proofs, work.captures) == (2, 1, 2)
    assert len(set(work.made)) == len(work.made) == 4
    one = the_report(region)
    assert (one["name"], one["calls"], one["replays"]) == ("replayed", 6, 4)
    assert one["recordings"][0]["nodes"] == 2 and one["recordings"][0]["choice"] == "graph"


def test_a_result_goes_where_there_is_room_already(stream):
    work, region = Doubled(), new_region("room", policy="always")
    frame = new_frame(region)
    x, y = fake_gpu.Memory(N, numbers(1)), fake_gpu.Memory(128)
    while not frame(work, stream, x.address, 0):
        pass
    made = len(work.made)
    x.write(numbers(5))
    assert frame(work, stream, x.address, y.address) is True
    assert y.read()[:N] == doubled(5)
    assert len(work.made) == made


def test_state_goes_on_before_each_replay(stream):
    class Stateful(Doubled):
        def __init__(self):
            super().__init__()
            self.launches = []

        def capture(self, values, kinds):
            return *super().capture(values, kinds), True, 3

        def before_launch(self, stream, again):
            self.launches.append((stream, again))

    work, region = Stateful(), new_region("stateful", policy="always")
    frame = new_frame(region)
    x = fake_gpu.Memory(N, numbers(0))
    replayed = [frame(work, stream, x.address, 0) for _ in range(4)]
    assert replayed == [False, False, True, True]
    # The proof repeats the plain call before it.
    assert [again for _, again in work.launches].count(True) == 1
    assert work.launches[-2:] == [(stream, False), (stream, False)]


def test_a_frame_is_called_by_many_threads(stream):
    region = new_region("threads", policy="always")
    frame = new_frame(region)
    wrong, replays = [], []

    def calls(start):
        own = fake_gpu.new_stream()
        for k in range(start, start + 100):
            work, x = Doubled(), fake_gpu.Memory(N, numbers(k))
            replays.append(frame(work, own, x.address, 0))
            if work.result.read() != doubled(k):
                wrong.append(k)

    threads = [threading.Thread(target=calls, args=(1000 * t,)) for t in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []
    assert len(replays) == 400 and sum(replays) > 0
    assert the_report(region)["calls"] == 400


def test_the_work_may_call_its_own_frame(stream):
    class Nested(Doubled):
        depth = 0
        seen = []

        def run(self, stream, values, prove):
            self.seen.append(values)
            if self.depth < 3:
                self.depth += 1
                frame(self, stream, values[0] + 1, 0)
                self.seen.append(values)

    frame = new_frame(new_region("nested", policy="never"))
    frame(Nested(), stream, 4096, 0)
    assert [v[0] for v in Nested.seen] == [4096, 4097, 4098, 4099, 4098, 4097, 4096]


# ---------------------------------------------------------------- failures
def test_an_exception_of_a_plain_run_comes_out_as_itself(stream):
    class Wrong(Exception):
        pass

    error = Wrong("of the work")

    class Work(Doubled):
        def run(self, *arguments):
            raise error

    frame = new_frame(new_region("raises", policy="never"))
    for _ in range(2):
        with pytest.raises(Wrong) as caught:
            frame(Work(), stream, 4096, 0)
        assert caught.value is error
        assert any(entry.name == "run" for entry in caught.traceback)


def test_an_exception_of_the_run_that_proves_comes_out_as_itself(stream):
    class Work(Doubled):
        def run(self, stream, values, prove):
            if prove:
                raise KeyError("in the proof")
            return super().run(stream, values, prove)

    work, region = Work(), new_region("raises in the proof", policy="always")
    frame = new_frame(region)
    x = fake_gpu.Memory(N, numbers(0))
    assert frame(work, stream, x.address, 0) is False
    with pytest.raises(KeyError, match="in the proof"):
        frame(work, stream, x.address, 0)


@pytest.mark.parametrize(
    "failure, reason",
    [
        (lambda: {}["key"], "KeyError: 'key'"),
        (lambda: (1, None, []), "returned 3 things, expected (graph, owner, made, allocations[, stateful[, arena]])"),
        (lambda: (0, None, [512], []), "returned no graph"),
        (lambda: (1, None, [], []), "capture() of the work gave 0 addresses, expected 1"),
        (lambda: (1, None, ["512"], []), "TypeError"),
        (lambda: (1, None, [512], [(512,)]), "IndexError"),
        (lambda: None, "TypeError: object of type 'NoneType' has no len()"),
    ],
)
def test_a_capture_that_fails_leaves_plain_calls_and_the_reason(stream, failure, reason):
    class Work(Doubled):
        def capture(self, values, kinds):
            return failure()

    work, region = Work(), new_region("no capture", policy="always")
    frame = new_frame(region)
    x = fake_gpu.Memory(N, numbers(3))
    for _ in range(3):
        assert frame(work, stream, x.address, 0) is False
        assert work.result.read() == doubled(3)
    assert reason in reasons(region)


def test_a_graph_that_does_something_else_is_not_replayed(stream):
    class Work(Doubled):
        factor = 3.0

    work, region = Work(), new_region("other", policy="always")
    frame = new_frame(region)
    x = fake_gpu.Memory(N, numbers(3))
    assert not any(frame(work, stream, x.address, 0) for _ in range(4))
    assert work.result.read() == doubled(3)
    assert "32 bytes differ" in reasons(region)


@pytest.mark.parametrize(
    "make, reason",
    [
        (lambda frame, region: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda frame, region: [], "make() of the work gave 0 addresses, expected 1"),
        (lambda frame, region: frame(None, 0, 0, 0), "must not call into Rondo"),
        (lambda frame, region: region.report(), "must not call into Rondo"),
        (lambda frame, region: rondo.report(), "must not call into Rondo"),
    ],
)
def test_a_make_that_fails_makes_the_call_a_plain_one(stream, make, reason):
    class Work(Doubled):
        def make(self):
            return make(frame, region)

    work, region = Work(), new_region("no memory", policy="always")
    frame = new_frame(region)
    x = fake_gpu.Memory(N, numbers(4))
    for _ in range(4):
        assert frame(work, stream, x.address, 0) is False
        assert work.result.read() == doubled(4)
    assert reason in reasons(region)


def test_an_interrupt_during_a_capture_is_not_lost(stream):
    class Work(Doubled):
        def capture(self, values, kinds):
            raise KeyboardInterrupt

    work, frame = Work(), new_frame(new_region("interrupted", policy="always"))
    x = fake_gpu.Memory(N, numbers(4))
    frame(work, stream, x.address, 0)
    with pytest.raises(KeyboardInterrupt):
        frame(work, stream, x.address, 0)
    assert work.runs == 1


def test_wrong_arguments_are_said_in_words(stream):
    region = new_region("misused")
    work = Doubled()
    frame = new_frame(region)
    number = "expected an address or the bits of a scalar, an integer from 0 to 2\\*\\*64 - 1"
    for arguments, text in [
        ((), "takes a work, a stream and 2 values by place: it was given 0$"),
        ((work, 0, 1), "takes a work, a stream and 2 values by place: it was given 3$"),
        ((work, 0, 1, 2, 3), "it was given 5$"),
        ((work, 0, "x", 2), f"value 0 is 'x': {number}"),
        ((work, 0, 1, 2.5), f"value 1 is 2.5: {number}"),
        ((work, 0, 1, -1), f"value 1 is -1: {number}"),
        ((work, 0, 1, 2**64), f"value 1 is 18446744073709551616: {number}"),
        ((work, None, 1, 2), "the stream is None: expected the integer that it is for the driver"),
    ]:
        with pytest.raises(rondo.UsageError, match=text):
            frame(*arguments)
    with pytest.raises(rondo.UsageError, match="and some by name"):
        frame(work, 0, 1, 2, stream=3)
    with pytest.raises(rondo.UsageError, match="argument 0.*is a null pointer"):
        frame(work, stream, 0, 0)
    assert work.runs == 0
    with pytest.raises(AttributeError, match="run"):
        frame(object(), stream, fake_gpu.Memory(N).address, 0)

    for arguments, text in [
        ((None, [], [], []), "the region of a frame is None: expected a rondo._core.Region"),
        ((region, [0], [], [0]), "a frame of 1 kinds, 0 sizes and 1 elements: expected one of each"),
        ((region, [6], [4], [0]), "argument 0 is of kind 6: expected 0 .in., "),
        ((region, [0], [4], [5]), "argument 0 has elements 5: expected 0 .bytes., "),
    ]:
        with pytest.raises(rondo.UsageError, match=text):
            _core.Frame(*arguments)
    with pytest.raises(TypeError):
        _core.Frame(region)
    with pytest.raises(OverflowError):
        _core.Frame(region, [0], [-1], [0])


def test_wrong_options_are_said_in_words():
    for options, text in [
        ("{", "a JSON object: this is none: {"),
        ("[]", "a JSON object: this is none"),
        ('{"policy": "x"}', 'option "policy" is "x": expected "auto", "always" or "never"'),
        ('{"proof": true}', 'option "proof" is true: expected "exact", "tolerance", "off" or "auto"'),
        ('{"plain_calls": -1}', 'option "plain_calls" is -1: expected a whole number from 0 to 4294967295'),
        ('{"plain_calls": 4294967296}', "expected a whole number from 0 to 4294967295"),
        ('{"tolerance": -0.5}', "expected a number that is not negative"),
        ('{"remember": 1}', "expected true or false"),
        ('{"speed": 1}', 'there is no option "speed" of a region: expected policy, goal, '),
    ]:
        with pytest.raises(rondo.UsageError) as caught:
            _core.Region("r", options)
        assert text in str(caught.value)


def test_every_option_is_taken():
    new_region(
        "options", policy="auto", goal="period", proof="tolerance", tolerance=0.5, staging="never", plain_calls=2,
        most_recordings=3, most_bytes=2**40, most_failures=1, check_arguments=False, recapture=False,
    )


def test_errors_are_of_python_s_kinds_too_and_can_be_pickled():
    assert issubclass(rondo.UsageError, (rondo.Error, ValueError)) and issubclass(rondo.UsageError, ValueError)
    assert issubclass(rondo.UnavailableError, RuntimeError) and issubclass(rondo.DeviceError, RuntimeError)
    for kind in (rondo.UsageError, rondo.UnavailableError, rondo.DeviceError):
        assert issubclass(kind, rondo.Error)
    again = pickle.loads(pickle.dumps(rondo.UsageError("text")))
    assert type(again) is rondo.UsageError and str(again) == "text"


# ---------------------------------------------------------------- captures
def test_a_capture_of_a_stream_is_a_graph_that_a_region_takes(stream):
    class Work(Doubled):
        def capture(self, values, kinds):
            y, own = fake_gpu.Memory(N), fake_gpu.new_stream()
            capture = _core.Capture(own)
            self.launch(own, values[0], y.address)
            graph = Captured(capture.end())
            return graph.handle, Owner(graph, y), [y.address], [(y.address, y.bytes)]

    class Captured:
        alive = 0

        def __init__(self, handle):
            self.handle = handle
            Captured.alive += 1

        def __del__(self):
            Captured.alive -= 1
            _core.graph_destroy(self.handle)

    work, region = Work(), new_region("captured", policy="always")
    frame = new_frame(region)
    x = fake_gpu.Memory(N, numbers(2))
    assert [frame(work, stream, x.address, 0) for _ in range(3)] == [False, False, True]
    assert work.result.read() == doubled(2)
    assert Captured.alive == 1
    del frame, region
    assert Captured.alive == 0


def test_a_capture_that_breaks_says_what_broke_it(stream):
    capture = _core.Capture(stream)
    with pytest.raises(fake_gpu.DriverError):
        fake_gpu.synchronize(stream)
    with pytest.raises(rondo.DeviceError, match="capture"):
        capture.end()
    with pytest.raises(rondo.UsageError, match="the capture has ended already"):
        capture.end()
    fake_gpu.synchronize(stream)


def test_a_capture_that_is_dropped_leaves_the_stream_usable(stream):
    x = fake_gpu.Memory(N, numbers(1))
    capture = _core.Capture(stream)
    fake_gpu.scale(stream, x.address, N, 2.0)
    del capture
    assert x.read() == numbers(1)
    fake_gpu.scale(stream, x.address, N, 2.0)
    assert x.read() == doubled(1)


# ---------------------------------------------------------------- who keeps what
def test_a_frame_keeps_its_region_and_the_region_what_was_captured(stream):
    gc.collect()
    owners, graphs = len(Owner.all), fake_gpu.Graph.alive
    work = Doubled()
    frame = new_frame(new_region("kept", policy="always"))  # nobody else has the region
    x = fake_gpu.Memory(N, numbers(2))
    for _ in range(3):
        frame(work, stream, x.address, 0)
    assert frame(work, stream, x.address, 0) is True
    assert work.captures == 2 and len(Owner.all) == owners + 1  # the recording needs one of them
    del frame
    assert len(Owner.all) == owners and fake_gpu.Graph.alive == graphs


def test_reset_lets_go_of_what_was_captured(stream):
    owners = len(Owner.all)
    work, region = Doubled(), new_region("reset", policy="always")
    frame = new_frame(region)
    x = fake_gpu.Memory(N, numbers(2))
    while not frame(work, stream, x.address, 0):
        pass
    assert len(Owner.all) == owners + 1
    region.reset()
    assert len(Owner.all) == owners
    while not frame(work, stream, x.address, 0):
        pass
    assert len(Owner.all) == owners + 1


def test_work_that_has_its_frame_is_collected(stream):
    owners = len(Owner.all)
    region = new_region("cycle", policy="always")
    work = Doubled()
    work.frame = new_frame(region)
    x = fake_gpu.Memory(N, numbers(2))
    while not work.frame(work, stream, x.address, 0):
        pass
    gone, frame_gone = weakref.ref(work), weakref.ref(work.frame)
    del work, region
    gc.collect()
    assert gone() is None and frame_gone() is None
    assert len(Owner.all) == owners


def test_an_owner_that_calls_rondo_when_it_goes_does_no_harm(stream):
    seen = []

    class Loud(Owner):
        def __del__(self):
            seen.append(len(rondo.report()))

    class Work(Doubled):
        def capture(self, values, kinds):
            graph, owner, made, allocations = super().capture(values, kinds)
            return graph, Loud(owner), made, allocations

    work, region = Work(), new_region("loud", policy="always")
    frame = new_frame(region)
    x = fake_gpu.Memory(N, numbers(2))
    while not frame(work, stream, x.address, 0):
        pass
    assert len(seen) == 1  # of the second capture
    region.reset()
    assert len(seen) == 2


def test_a_region_that_dies_in_make_dies_later(stream):
    class Work(Doubled):
        def make(self):
            self.other = None
            return super().make()

    work, region = Work(), new_region("outer", policy="always")
    work.other = new_frame(new_region("inner", policy="always"))
    inner = weakref.ref(work.other)
    owners = len(Owner.all)
    x = fake_gpu.Memory(N, numbers(2))
    while not work.other(Doubled(), stream, x.address, 0):
        pass
    assert len(Owner.all) == owners + 1
    frame = new_frame(region)
    while not frame(work, stream, x.address, 0):
        pass
    assert inner() is None and len(Owner.all) == owners + 1  # of the outer one


# ---------------------------------------------------------------- reports
def test_reports_are_json_of_one_region_and_of_all(stream):
    region = new_region("reported", policy="never")
    x = fake_gpu.Memory(N, numbers(0))
    new_frame(region)(Doubled(), stream, x.address, 0)
    one = json.loads(region.report())
    assert one["rondo_replay_report"] >= 1
    assert [r["name"] for r in one["regions"]] == ["reported"]
    assert "reported" in region.text()
    assert one["regions"][0] in rondo.report() and one["regions"][0] in json.loads(_core.report_json())["regions"]
    assert "reported" in rondo.report_text()
    assert rondo.__version__ == _core.version() and rondo.__version__.count(".") == 2


# ---------------------------------------------------------------- processes of their own
def run_python(text, **environment):
    env = {**os.environ, **environment}
    env["PYTHONPATH"] = os.pathsep.join([os.path.dirname(__file__), env.get("PYTHONPATH", "")])
    return subprocess.run([sys.executable, "-c", text], env=env, capture_output=True, text=True, timeout=60)


def test_without_a_driver_there_is_a_reason():
    done = run_python(
        "import rondo\n"
        "from rondo import _core\n"
        "print(rondo.available())\n"
        "try: _core.Region('r')\n"
        "except rondo.UnavailableError as e: print(e)\n",
        RONDO_LIBCUDA="/nowhere/libcuda.so",
    )
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert first == second and first.startswith("CUDA is not available: cannot open /nowhere/libcuda.so")
    assert rondo.available() == ""


def test_the_package_does_not_need_torch():
    done = run_python("import rondo, sys; print('torch' in sys.modules, rondo.available())")
    assert (done.stdout, done.stderr) == ("False \n", "")


AT_THE_END = """
import threading, time
import fake_gpu, test_core
from rondo import _core
fake_gpu.start()
region = test_core.new_region("end", policy="{policy}")
frame = test_core.new_frame(region)
ready = threading.Event()

def calls():
    work, stream = test_core.Doubled(), fake_gpu.new_stream()
    x = fake_gpu.Memory(test_core.N, test_core.numbers(0))
    for k in range(10**9):
        frame(work, stream, x.address, 0)
        if k == 10:
            ready.set()

for _ in range(3):
    threading.Thread(target=calls, daemon=True).start()
ready.wait(30)
print(ready.is_set())
"""


@pytest.mark.parametrize("policy", ["always", "never"])
def test_a_process_ends_in_order_while_threads_are_in_calls(policy):
    for _ in range(3):
        done = run_python(AT_THE_END.format(policy=policy))
        assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
