#!/usr/bin/env python3
"""Real models with random weights: eager, Inductor, its built-in graphs, Rondo's backend, Rondo's graphed callable.

    python3 bench/torch_models.py --list
    python3 bench/torch_models.py --only mlp,resnet18 [--modes eager,inductor,graphs,rondo,graphed] [--rounds 7]
    python3 bench/torch_models.py --all --jobs 14 --budget 560 --json build/torch_models.json
    python3 bench/torch_models.py --table build/torch_models.json

Modes are measured in one process, in turns (torch_measure.py says how). --all is for a machine of one GPU. First N
processes at a time compile each model in all modes, which fills Inductor's and Triton's caches (--warm: only that;
--no-warm: not that). Then each model has a process of its own: N at a time compile, from the caches, and wait; when all
of them are ready, one after the other is measured, while nothing else runs. The processes are forks of this one, which
has imported everything and has not touched the GPU. --budget SECONDS: what is not done by then is left out, and the
table says so. --check builds every model and calls it once; with --device cpu it needs no GPU (all in float32).
"""
import argparse
import json
import os
import pathlib
import signal
import sys
import time

START = time.monotonic()
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
MODES = ("eager", "inductor", "graphs", "rondo", "graphed")


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="names of the models")
    parser.add_argument("--only", default="", help="names or parts of names with *, separated by commas")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5, help="of rounds for one model, all modes together")
    parser.add_argument("--settle", type=float, default=3.0, help="seconds that Rondo may take to decide, a mode")
    parser.add_argument("--no-profile", action="store_true", help="do not count kernels and launches")
    parser.add_argument("--check", action="store_true", help="build and call every model, nothing compiled")
    parser.add_argument("--warm", action="store_true", help="only compile, in all modes: fills the caches")
    parser.add_argument("--all", action="store_true", help="warm, then measure, each model in its own process")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="that compile at a time")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds for all, from the start of this program")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one model, three times that for warming")
    parser.add_argument("--no-warm", action="store_true", help="with --all: the caches are full already")
    parser.add_argument("--json", default="", help="where the figures go; --all: build/torch_models.json")
    parser.add_argument("--gate", default="", help=argparse.SUPPRESS)  # two pipes of run_all, see Gate
    parser.add_argument("--table", default="", help="only print the table of this file")
    parser.add_argument("--cache", default=os.environ.get("TORCHINDUCTOR_CACHE_DIR", str(HERE.parent / "build" / "torch_cache")))
    return parser.parse_args()


def prepare_environment(arguments):
    """Before torch is imported: one folder for all caches, no pool of compile workers, no CUDA in this process."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = arguments.cache
    os.environ.setdefault("TRITON_CACHE_DIR", str(pathlib.Path(arguments.cache) / "triton"))
    os.environ.setdefault("RONDO_CACHE_DIR", str(pathlib.Path(arguments.cache) / "rondo"))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")


def chosen(arguments, entries):
    import fnmatch
    if not arguments.only:
        return list(entries.values())
    out = []
    for pattern in arguments.only.split(","):
        names = fnmatch.filter(entries, pattern.strip())
        if not names:
            sys.exit(f"there is no model {pattern!r}; --list names them")
        out += [entries[n] for n in names if entries[n] not in out]
    return out


def quiet():
    import logging
    import warnings
    warnings.filterwarnings("ignore")
    logging.getLogger("torch").setLevel(logging.ERROR)


def measure_here(entry, arguments, *, quick, gate=lambda: None):
    """One model in this process."""
    import torch
    import torch_measure
    if arguments.device == "cuda":
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
    modes = [m for m in arguments.modes.split(",") if m]
    if quick and "eager" in modes:
        modes.remove("eager")
    return torch_measure.measure(entry, torch.device(arguments.device), modes, count=arguments.rounds,
                                 seconds=arguments.seconds, settle_s=arguments.settle,
                                 profile=not arguments.no_profile, quick=quick, gate=gate,
                                 say=lambda t: print(t, flush=True))


def check(entries, arguments):
    """Every model built and called once eagerly: does it run, are its results finite?"""
    import torch
    failed = 0
    for entry in entries:
        start = time.monotonic()
        try:
            device = torch.device(arguments.device)
            work = entry.make(device)
            inputs = work.inputs(0)
            with torch.set_grad_enabled(entry.train):
                out = work.module(*inputs)
                if entry.train:
                    out.backward()
            leaves = [t for t in torch.utils._pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
            assert leaves, "no tensor comes out"
            finite = all(bool(torch.isfinite(t).all()) for t in leaves if t.is_floating_point())
            without = sum(p.grad is None and p.requires_grad for p in work.module.parameters()) if entry.train else 0
            print(f"{entry.name:20} {'ok' if finite else 'NOT FINITE':10} {time.monotonic() - start:5.1f} s  "
                  f"{sum(p.numel() for p in work.module.parameters()) / 1e6:6.1f} M parameters  "
                  f"{', '.join(str(list(t.shape)) for t in leaves[:3])}"
                  + (f"  {without} parameters without gradient" if without else ""), flush=True)
            failed += not finite
        except Exception as error:
            failed += 1
            print(f"{entry.name:20} FAILED {type(error).__name__}: {str(error)[:300]}", flush=True)
    print(f"{len(entries)} models, {failed} failed")
    return failed


# --- processes ---------------------------------------------------------------------------------------------------


class Gate:
    """Two pipes between run_all and a process: "compiled, waiting" goes up, "your turn" comes down."""

    def __init__(self):
        (self.see, self.tell), (self.wait, self.open_) = os.pipe(), os.pipe()
        for end in (self.tell, self.wait):
            os.set_inheritable(end, True)
        os.set_blocking(self.see, False)

    def in_process(self):
        return pass_gate(self.tell, self.wait)

    def names(self):
        return f"{self.tell},{self.wait}"

    def close(self):
        for end in (self.see, self.tell, self.wait, self.open_):
            os.close(end)

    def waiting(self):
        try:
            return os.read(self.see, 1) == b"w"
        except BlockingIOError:
            return False


def pass_gate(tell, wait):
    def gate():
        os.write(tell, b"w")
        os.read(wait, 1)
    return gate


class Jobs:
    """Processes of ours, each with a log, an end and what is called when it is over: "" or why it failed."""

    def __init__(self, folder, at_once, deadline):
        self.folder, self.at_once, self.deadline = folder, at_once, deadline
        self.running = {}  # process id -> [name, end, done]

    def start(self, name, work, limit, done):
        """Once there is room. The process id; 0 when the time is over."""
        while len(self.running) >= self.at_once:
            self.poll()
        if time.monotonic() >= self.deadline:
            return 0
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                log = os.open(self.folder / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
                os.dup2(log, 1)
                os.dup2(log, 2)
                work()
                sys.stdout.flush()
                code = 0
            except BaseException:
                import traceback
                traceback.print_exc()
                sys.stderr.flush()
            os._exit(code)
        self.running[pid] = [name, min(time.monotonic() + limit, self.deadline), done]
        return pid

    def poll(self):
        """Ends what is over its time, tells of one that is over; sleeps a little when there is none."""
        for pid, (_, end, done) in list(self.running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            late = not ended and time.monotonic() > end
            if late:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if ended or late:
                del self.running[pid]
                code = os.waitstatus_to_exitcode(status)
                done("took too long" if late else "" if code == 0 else f"exit code {code}")
                return
        time.sleep(0.01)

    def wait(self, pid):
        while pid in self.running:
            self.poll()

    def finish(self):
        while self.running:
            self.poll()


def last_words(path):
    try:
        lines = path.read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""
    except OSError:
        return ""


def write_json(path, data):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".part").write_text(json.dumps(data, indent=1))
    path.with_suffix(".part").replace(path)


class Run:
    """--all: where things are, and the two phases."""

    def __init__(self, entries, arguments, facts):
        import random
        self.entries, self.arguments, self.facts = list(entries), arguments, facts
        random.Random(1).shuffle(self.entries)  # a run that is cut short is a sample of all kinds
        self.target = pathlib.Path(arguments.json or "build/torch_models.json")
        self.folder = self.target.parent / (self.target.stem + ".logs")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.deadline = START + arguments.budget
        self.results, self.left_out = [], {e.name: "no time was left" for e in entries}
        preload(arguments)
        self.forks = forks_work(arguments, self.folder)
        print(f"imports: {time.monotonic() - START:.1f} s"
              + ("" if self.forks else "; forks cannot use the GPU here: each process imports for itself"), flush=True)

    def log(self, name):
        return self.folder / f"{name}.log"

    def work(self, entry, *, quick, path=None, gate=None):
        """What the process of one model does."""
        if self.forks:
            def measured():
                go = gate.in_process() if gate else lambda: None
                result = measure_here(entry, self.arguments, quick=quick, gate=go)
                if path:
                    write_json(path, {"results": [result]})
            return measured
        a = self.arguments
        more = ["--warm"] if quick else ["--json", str(path), "--gate", gate.names()]
        more += ["--no-profile"] if a.no_profile else []
        words = [sys.executable, str(HERE / "torch_models.py"), "--only", entry.name, "--modes", a.modes, "--device",
                 a.device, "--rounds", str(a.rounds), "--seconds", str(a.seconds), "--settle", str(a.settle),
                 "--cache", a.cache, *more]
        return lambda: os.execv(sys.executable, words)

    def warm(self):
        """Fills the caches, in what measuring (some 7 seconds a model) leaves of the budget, or in 40 % of it."""
        begun = time.monotonic()
        until = max(START + 0.4 * self.arguments.budget, self.deadline - 7.0 * len(self.entries))
        jobs = Jobs(self.folder, self.arguments.jobs, self.deadline if self.arguments.warm else until)
        good = []
        for entry in self.entries:
            def done(failure, name=entry.name, start=time.monotonic()):
                words = f"FAILED: {failure}: {last_words(self.log(name))}" if failure else "ok"
                print(f"warm {name}: {words}, {time.monotonic() - start:.1f} s", flush=True)
                if not failure:
                    good.append(name)
            if not jobs.start(entry.name, self.work(entry, quick=True), 4 * self.arguments.limit, done):
                break
        jobs.finish()
        print(f"warmed {len(good)} of {len(self.entries)} models in {time.monotonic() - begun:.0f} s", flush=True)
        self.entries.sort(key=lambda e: e.name not in good)

    def measure(self):
        jobs = Jobs(self.folder, self.arguments.jobs, self.deadline)
        for first in range(0, len(self.entries), self.arguments.jobs):
            batch, begun = [], time.monotonic()
            for entry in self.entries[first:first + self.arguments.jobs]:
                path = self.folder / f"{entry.name}.json"
                path.unlink(missing_ok=True)
                gate = Gate()
                pid = jobs.start(entry.name, self.work(entry, quick=False, path=path, gate=gate),
                                 3 * self.arguments.limit, lambda failure, e=entry, p=path: self.keep(e, p, failure))
                batch.append((pid, gate))
            ready = set()
            while any(pid in jobs.running and pid not in ready for pid, _ in batch):
                ready |= {pid for pid, gate in batch if pid not in ready and gate.waiting()}
                jobs.poll()
            print(f"{len(ready)} models ready in {time.monotonic() - begun:.1f} s", flush=True)
            for pid, gate in batch:
                if pid in jobs.running:
                    jobs.running[pid][1] = min(time.monotonic() + self.arguments.limit, self.deadline)
                    for other in jobs.running:  # waiting for a turn does not count
                        if other != pid:
                            jobs.running[other][1] = self.deadline
                    os.write(gate.open_, b"g")
                    jobs.wait(pid)
                gate.close()

    def keep(self, entry, path, failure):
        done = len(self.results) + 1
        if not path.exists():
            self.left_out[entry.name] = f"{failure or 'no result'}: {last_words(self.log(entry.name))}"
            print(f"[-/{len(self.entries)}] {entry.name}: {self.left_out[entry.name]}", flush=True)
            return
        del self.left_out[entry.name]
        self.results += json.loads(path.read_text())["results"]
        took = self.results[-1]["seconds"]
        print(f"[{done}/{len(self.entries)}] {short(self.results[-1])}  "
              f"({took['compile']:.1f} + {took['measure']:.1f} s)", flush=True)
        self.write()

    def data(self):
        return {**self.facts, "results": self.results, "left_out": self.left_out}

    def write(self):
        write_json(self.target, self.data())


def forks_work(arguments, folder):
    """Whether a fork can use the device: nothing that was imported has touched it here."""
    def touch():
        import torch
        torch.zeros(1, device=arguments.device)
    answer = []
    jobs = Jobs(folder, 1, time.monotonic() + 60)
    jobs.start("fork", touch, 60, answer.append)
    jobs.finish()
    return answer == [""]


def run_all(entries, arguments, facts):
    run = Run(entries, arguments, facts)
    if arguments.warm or not arguments.no_warm:
        run.warm()
    if not arguments.warm:
        run.measure()
        run.write()
    return run.data()


def preload(arguments):
    """What the forks would import each for itself."""
    import torch._dynamo  # noqa: F401
    import torch._functorch.aot_autograd  # noqa: F401
    import torch._inductor.codegen.triton  # noqa: F401
    import torch._inductor.compile_fx  # noqa: F401
    import torch._inductor.cudagraph_trees  # noqa: F401
    import torch.profiler  # noqa: F401
    import torch_measure  # noqa: F401
    if arguments.device == "cuda":
        import triton  # noqa: F401


def short(result):
    """One model in a line: us a call back to back."""
    parts = []
    for mode, of in result["modes"].items():
        parts.append(f"{mode} {of['period_us']:.0f}" if "period_us" in of else f"{mode} FAILED")
    return f"{result['name']}: " + ", ".join(parts)


def machine(arguments):
    """What the figures depend on; asked in a child, for this process stays off the GPU."""
    import subprocess
    text = ("import torch,sys,json;d=sys.argv[1];print(json.dumps({'torch':torch.__version__,'cuda':torch.version.cuda,"
            "'device':torch.cuda.get_device_name() if d=='cuda' else 'cpu','python':sys.version.split()[0]}))")
    ran = subprocess.run([sys.executable, "-c", text, arguments.device], capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"no device {arguments.device}: {(ran.stderr.strip().splitlines() or ['?'])[-1]}")
    commit = subprocess.run(["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {"machine": json.loads(ran.stdout), "commit": commit.stdout.strip(), "modes": arguments.modes.split(","),
            "rounds": arguments.rounds, "seconds": arguments.seconds}


def main():
    arguments = options()
    if arguments.table:
        from torch_table import table
        return table(json.loads(pathlib.Path(arguments.table).read_text()))
    unknown = set(arguments.modes.split(",")) - set(MODES)
    if unknown:
        sys.exit(f"there is no mode {', '.join(sorted(unknown))}; there are {', '.join(MODES)}")
    prepare_environment(arguments)
    quiet()
    import torch_zoo
    import torch_zoo_libraries
    for suite, why in torch_zoo_libraries.MISSING.items():
        print(f"without the models of {suite}: {why}")
    entries = chosen(arguments, torch_zoo.ENTRIES)
    if arguments.list:
        for e in entries:
            marks = ("train" if e.train else "infer") + (", launch-bound" if e.launch_bound else "")
            print(f"{e.name:20} {e.suite:13} {marks + (', dynamic' if e.dynamic else ''):28} {e.about}")
        print(f"{len(entries)} models, {sum(e.launch_bound for e in entries)} thought launch-bound, "
              f"{sum(e.train for e in entries)} in training")
        return 0
    if arguments.check:
        return 1 if check(entries, arguments) else 0
    facts = {} if arguments.gate else machine(arguments)
    if arguments.all:
        data = run_all(entries, arguments, facts)
        if arguments.warm:
            return 0
        from torch_table import table
        return table(data)
    gate = pass_gate(*map(int, arguments.gate.split(","))) if arguments.gate else lambda: None
    results = [measure_here(entry, arguments, quick=arguments.warm, gate=gate) for entry in entries]
    if arguments.json:
        write_json(arguments.json, {**facts, "results": results, "left_out": {}})
    if arguments.warm or arguments.gate:
        return 0
    from torch_table import table
    return table({**facts, "results": results, "left_out": {}})


if __name__ == "__main__":
    sys.exit(main())
