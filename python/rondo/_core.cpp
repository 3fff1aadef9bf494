// The Python module rondo._core: replay regions for Python, on the C ABI only.
//
// Region and the reports are nanobind's. Frame, whose call is what a replay costs, is a type of CPython's
// own: its call takes integers straight from the interpreter's stack (vectorcall) and allocates nothing.
//
// The GIL is given up around every call into Rondo that may wait, and taken in callbacks, on the thread that
// made the call. make() and before_launch() come while the region is locked, so nobody may hold the GIL and
// wait for a region. What a recording gives up (its owner) may be destroyed by any Python code at all; it is
// put aside, and let go once nothing of Rondo's is locked: at the end of the next call, or by the
// interpreter. An owner must not refer to its region, which the garbage collector could not see. Once the
// interpreter ends, owners are left to the process.
#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "rondo/rondo_c.h"
#if PY_VERSION_HEX < 0x030c0000
#include <structmember.h>
#define Py_T_PYSSIZET T_PYSSIZET
#define Py_READONLY READONLY
#endif

namespace nb = nanobind;

namespace {

// ---------------------------------------------------------------- errors
// Of the module, which is never unloaded.
PyObject* error_class = nullptr;
PyObject* usage_error = nullptr;
PyObject* unavailable_error = nullptr;
PyObject* device_error = nullptr;

void set_error(int code) {
  PyObject* kind = error_class;
  if (code == RONDO_ERROR_USAGE) kind = usage_error;
  if (code == RONDO_ERROR_UNAVAILABLE) kind = unavailable_error;
  if (code == RONDO_ERROR_DEVICE) kind = device_error;
  if (code == RONDO_ERROR_MEMORY) kind = PyExc_MemoryError;
  PyErr_SetString(kind, rondo_error_text());
}

[[noreturn]] void throw_error(int code) {
  set_error(code);
  throw nb::python_error();
}

template <class... Args>
[[noreturn]] void misused(const char* format, Args... args) {
  PyErr_Format(usage_error, format, args...);
  throw nb::python_error();
}

// ---------------------------------------------------------------- the GIL
// When the interpreter ends, up to CPython 3.13 a thread that wants the GIL is unwound to its start, through
// frames that do not expect it and let go of objects without the GIL. It stays here instead, as CPython
// itself has it from 3.14 on.
template <class F>
auto or_stay(const F& call) {
  try {
    return call();
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
}
void take_gil(PyThreadState* thread) {
  or_stay([&] { PyEval_RestoreThread(thread); });
}

// Gives the GIL up, and takes it again.
class WithoutGil {
 public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  ~WithoutGil() { take_gil(thread_); }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  PyThreadState* thread() const { return thread_; }

 private:
  PyThreadState* thread_;
};

// The other way round, within.
class WithGil {
 public:
  explicit WithGil(PyThreadState* thread) { take_gil(thread); }
  ~WithGil() { (void)PyEval_SaveThread(); }
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;
};

// ---------------------------------------------------------------- what a region lets go
// make() and before_launch() on this thread: a region is locked.
thread_local int locked = 0;

struct Owner {
  PyObject* object;
  rondo_region* region;  // or one that died while another one was locked
  Owner* next;
};
std::atomic<Owner*> put_aside{nullptr};
std::atomic<bool> ended{false};  // the interpreter

void let_go() {
  if (locked) return;
  for (Owner* o = put_aside.exchange(nullptr, std::memory_order_acquire); o;) {
    Owner* const next = o->next;
    Py_XDECREF(o->object);
    if (o->region) {
      const WithoutGil without;
      rondo_region_destroy(o->region);
    }
    delete o;
    o = next;
  }
}
// With the GIL.
void let_go_if_any() {
  if (put_aside.load(std::memory_order_relaxed)) [[unlikely]]
    let_go();
}

void release(void* owner) {
  if (ended.load(std::memory_order_acquire)) return;
  auto* const own = static_cast<Owner*>(owner);
  own->next = put_aside.load(std::memory_order_relaxed);
  while (!put_aside.compare_exchange_weak(own->next, own, std::memory_order_release,
                                          std::memory_order_relaxed)) {
  }
  // For when no further call comes. It needs no GIL; where it fails, a later call does it.
  if (!own->next)
    (void)Py_AddPendingCall(
        [](void*) {
          let_go();
          return 0;
        },
        nullptr);
}

constexpr const char* kLocked =
    "make() and before_launch() of a work must not call into Rondo: their region is locked meanwhile";
void refuse_if_locked() {
  if (locked) misused(kLocked);
}

// ---------------------------------------------------------------- regions
class Region {
 public:
  Region(const std::string& name, const std::string& options) {
    int code = 0;
    {
      const WithoutGil without;
      code = rondo_region_create(name.c_str(), options.c_str(), &region_);
    }
    if (code) throw_error(code);
  }
  ~Region() {
    if (locked) {  // the garbage collector came in between
      if (auto* const o = new (std::nothrow) Owner{nullptr, region_, nullptr}) release(o);
      return;
    }
    {
      const WithoutGil without;
      rondo_region_destroy(region_);
    }
    let_go_if_any();
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  rondo_region* get() const { return region_; }
  void reset() {
    refuse_if_locked();
    int code = 0;
    {
      const WithoutGil without;
      code = rondo_region_reset(region_);
    }
    let_go_if_any();
    if (code) throw_error(code);
  }

 private:
  rondo_region* region_ = nullptr;
};

template <class Get>
nb::str text_of(const rondo_region* region, Get get) {
  refuse_if_locked();
  char* text = nullptr;
  int code = 0;
  {
    const WithoutGil without;
    code = get(region, &text);
  }
  if (code) throw_error(code);
  const std::unique_ptr<char, void (*)(void*)> owned(text, rondo_free);
  return nb::str(text);
}

// A capture by the thread that makes it.
class Capture {
 public:
  explicit Capture(uint64_t stream) {
    if (const int code = rondo_capture_begin(reinterpret_cast<void*>(stream), &capture_)) throw_error(code);
  }
  ~Capture() {
    if (capture_) (void)rondo_capture_end(capture_, nullptr);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  uint64_t end() {
    if (!capture_) misused("the capture has ended already");
    void* graph = nullptr;
    if (const int code = rondo_capture_end(std::exchange(capture_, nullptr), &graph)) throw_error(code);
    return reinterpret_cast<uint64_t>(graph);
  }

 private:
  rondo_capture* capture_ = nullptr;
};

std::string available() {
  const WithoutGil without;
  return rondo_available() == RONDO_OK ? "" : rondo_error_text();
}

// ---------------------------------------------------------------- frames
// A place that calls a region: the fixed part of its arguments.
struct Frame {
  PyObject_HEAD vectorcallfunc call;
  PyObject* weak_references;
  PyObject* region_object;
  rondo_region* region;
  rondo_argument* arguments;  // kinds and sizes stay, values are of the call in progress
  Py_ssize_t count;
  bool busy;  // a call is in progress; one that comes in between takes a copy of the arguments
};

struct Call {
  const Frame* frame;
  PyObject* work;  // the caller's, who has it until the call returns
  PyThreadState* thread;
  std::optional<nb::python_error> error;  // of run(), or an interrupt
  bool interrupted;
  std::vector<rondo_span> allocations;
};

// Names of the work's methods, interned.
PyObject *name_run, *name_capture, *name_make, *name_before_launch;

// An exception in words: "ValueError: text".
std::string words_of(const nb::python_error& e) {
  std::string name = "an exception", text;
  try {
    name = nb::cast<std::string>(e.type().attr("__name__"));
    text = nb::cast<std::string>(nb::str(e.value()));
  } catch (...) {  // its own __str__ fails
    PyErr_Clear();
  }
  return text.empty() ? name : name + ": " + text;
}

// A callback: with the GIL, and with a text instead of an exception. An interrupt is kept: a run that comes
// next is left out, and the call raises it.
template <class F>
int callback(void* object, const F& body, bool keep = false) noexcept {
  Call& call = *static_cast<Call*>(object);
  const WithGil with(call.thread);
  try {
    body(call);
    return 0;
  } catch (nb::python_error& e) {
    try {
      rondo_fail(words_of(e).c_str());
      if (e.matches(PyExc_KeyboardInterrupt)) call.interrupted = true;
      if (keep || call.interrupted) call.error.emplace(std::move(e));
    } catch (...) {
      rondo_fail("out of host memory");
    }
  } catch (const nb::cast_error&) {
    rondo_fail("TypeError: the work returned something of another type than it should");
  } catch (const std::exception& e) {
    rondo_fail(e.what());
  } catch (...) {
    rondo_fail("an exception of a type that Rondo does not know");
  }
  return 1;
}

nb::object checked(PyObject* made) {
  if (!made) throw nb::python_error();
  return nb::steal(made);
}

template <class Get>
nb::object tuple_of(const Call& call, const Get& get) {
  nb::object out = checked(PyTuple_New(call.frame->count));
  for (Py_ssize_t i = 0; i < call.frame->count; ++i)
    PyTuple_SetItem(out.ptr(), i, checked(get(i)).release().ptr());
  return out;
}
nb::object values_of(const Call& call, const rondo_argument* a) {
  return tuple_of(call, [&](Py_ssize_t i) { return PyLong_FromUnsignedLongLong(a[i].value); });
}
nb::object kinds_of(const Call& call, const rondo_argument* a) {
  return tuple_of(call, [&](Py_ssize_t i) { return PyLong_FromUnsignedLong(a[i].kind); });
}

uint64_t number(nb::handle object) {
  const unsigned long long value = PyLong_AsUnsignedLongLong(object.ptr());
  if (value == static_cast<unsigned long long>(-1) && PyErr_Occurred()) throw nb::python_error();
  return value;
}

nb::object item(nb::handle sequence, Py_ssize_t i) { return checked(PySequence_GetItem(sequence.ptr(), i)); }
Py_ssize_t size_of(nb::handle sequence) {
  const Py_ssize_t size = PySequence_Size(sequence.ptr());
  if (size < 0) throw nb::python_error();
  return size;
}

// The addresses of the frame's results of kind Made, in their order; of those without an address only, where
// `missing`. One that is asked for as Out stays where it was asked for.
void set_made(const Call& call, rondo_argument* a, nb::handle addresses, bool missing, const char* from) {
  const rondo_argument* const mine = call.frame->arguments;
  const auto meant = [&](Py_ssize_t i) { return mine[i].kind == RONDO_MADE && !(missing && a[i].value); };
  Py_ssize_t expected = 0;
  for (Py_ssize_t i = 0; i < call.frame->count; ++i) expected += meant(i);
  const Py_ssize_t given = addresses.is_none() ? 0 : size_of(addresses);
  if (given != expected)
    misused("%s of the work gave %zd addresses, expected %zd: of each result that it allocates%s", from,
            given, expected, missing ? " and that has no memory yet" : "");
  for (Py_ssize_t i = 0, next = 0; i < call.frame->count; ++i) {
    if (!meant(i)) continue;
    const uint64_t address = number(item(addresses, next++));
    if (a[i].kind == RONDO_MADE) a[i].value = address;
  }
}

// work.name(*args)
template <class... Args>
nb::object ask(const Call& call, PyObject* name, const Args&... args) {
  PyObject* const all[] = {call.work, args.ptr()...};
  return checked(or_stay([&] { return PyObject_VectorcallMethod(name, all, sizeof...(args) + 1, nullptr); }));
}
nb::handle truth(bool value) { return value ? Py_True : Py_False; }

int on_run(void* object, void* stream, rondo_argument* a, int prove) {
  return callback(
      object,
      [&](Call& call) {
        if (call.interrupted) throw nb::python_error(*call.error);
        call.error.reset();
        const nb::object made =
            ask(call, name_run, checked(PyLong_FromVoidPtr(stream)), values_of(call, a), truth(prove != 0));
        if (prove) set_made(call, a, made, false, "run(prove=True)");
      },
      true);
}

int on_capture(void* object, rondo_argument* a, rondo_captured* out) {
  return callback(object, [&](Call& call) {
    const nb::object result = ask(call, name_capture, values_of(call, a), kinds_of(call, a));
    const Py_ssize_t size = size_of(result);
    if (size < 4 || size > 6)
      misused(
          "capture() of the work returned %zd things, expected (graph, owner, made, allocations[, stateful[, "
          "arena]])",
          size);
    set_made(call, a, item(result, 2), false, "capture()");
    const nb::object allocations = item(result, 3);
    call.allocations.clear();
    for (Py_ssize_t i = 0, n = size_of(allocations); i < n; ++i) {
      const nb::object span = item(allocations, i);
      call.allocations.push_back({number(item(span, 0)), number(item(span, 1))});
    }
    const int stateful = size > 4 ? PyObject_IsTrue(item(result, 4).ptr()) : 0;
    if (stateful < 0) throw nb::python_error();
    out->graph = reinterpret_cast<void*>(number(item(result, 0)));
    out->allocations = call.allocations.data();
    out->allocation_count = call.allocations.size();
    out->stateful = stateful;
    out->arena = size > 5 ? number(item(result, 5)) : 0;
    // Last, as nothing can fail any more.
    nb::object owner = item(result, 1);
    auto* const own = new Owner{nullptr, nullptr, nullptr};
    own->object = owner.release().ptr();
    out->owner = own;
  });
}

struct Locked {
  Locked() { ++locked; }
  ~Locked() { --locked; }
};

int on_make(void* object, rondo_argument* a) {
  return callback(object, [&](Call& call) {
    const Locked region;
    set_made(call, a, ask(call, name_make), true, "make()");
  });
}

int on_before_launch(void* object, void* stream, int again) {
  return callback(object, [&](Call& call) {
    const Locked region;
    (void)ask(call, name_before_launch, checked(PyLong_FromVoidPtr(stream)), truth(again != 0));
  });
}

// False: not an integer, and the error is set.
bool read_value(PyObject* from, Py_ssize_t which, uint64_t* to) {
  if (PyLong_Check(from)) [[likely]] {
    // For an address, of two digits of CPython's, three times as fast as PyLong_AsUnsignedLongLong.
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(from, &overflow);
    *to = static_cast<uint64_t>(value);
    if (value >= 0 && overflow == 0) [[likely]]
      return true;
    if (overflow > 0) {
      *to = PyLong_AsUnsignedLongLong(from);
      if (*to != ~uint64_t{0} || !PyErr_Occurred()) return true;
      PyErr_Clear();
    }
  }
  if (which < 0)
    PyErr_Format(usage_error, "the stream is %R: expected the integer that it is for the driver", from);
  else
    PyErr_Format(
        usage_error,
        "value %zd is %R: expected an address or the bits of a scalar, an integer from 0 to 2**64 - 1", which,
        from);
  return false;
}

// frame(work, stream, *values) -> bool
PyObject* frame_call(PyObject* self, PyObject* const* given, size_t flags, PyObject* names) {
  auto* const f = reinterpret_cast<Frame*>(self);
  const Py_ssize_t given_count = PyVectorcall_NARGS(flags);
  if (given_count != f->count + 2 || (names && PyTuple_Size(names) > 0)) [[unlikely]] {
    PyErr_Format(usage_error,
                 "a call of this frame takes a work, a stream and %zd values by place: it was given %zd%s",
                 f->count, given_count, names && PyTuple_Size(names) > 0 ? ", and some by name" : "");
    return nullptr;
  }
  if (locked) [[unlikely]] {
    PyErr_SetString(usage_error, kLocked);
    return nullptr;
  }
  rondo_argument* arguments = f->arguments;
  std::unique_ptr<rondo_argument[]> copy;
  if (f->busy) [[unlikely]] {
    copy.reset(new (std::nothrow) rondo_argument[static_cast<size_t>(f->count)]);
    if (!copy) return PyErr_NoMemory();
    std::copy(f->arguments, f->arguments + f->count, copy.get());
    arguments = copy.get();
  }
  uint64_t stream = 0;
  if (!read_value(given[1], -1, &stream)) return nullptr;
  for (Py_ssize_t i = 0; i < f->count; ++i)
    if (!read_value(given[i + 2], i, &arguments[i].value)) return nullptr;

  Call call{f, given[0], nullptr, {}, false, {}};
  const rondo_work work = {&call, on_run, on_capture, on_make, on_before_launch, release};
  if (!copy) f->busy = true;
  int replayed = 0, code = 0;
  {
    const WithoutGil without;
    call.thread = without.thread();
    code = rondo_region_call(f->region, reinterpret_cast<void*>(stream), arguments,
                             static_cast<size_t>(f->count), &work, &replayed);
  }
  if (!copy) f->busy = false;
  if (code || call.interrupted) [[unlikely]] {
    if (!call.interrupted && (code != RONDO_ERROR_WORK || !call.error)) {
      set_error(code);
      call.error.emplace();  // takes it
    }
    let_go_if_any();
    call.error->restore();
    return nullptr;
  }
  let_go_if_any();
  PyObject* const result = replayed ? Py_True : Py_False;
  Py_INCREF(result);
  return result;
}

void frame_dealloc(PyObject* self) {
  auto* const f = reinterpret_cast<Frame*>(self);
  if (f->weak_references) PyObject_ClearWeakRefs(self);
  Py_XDECREF(f->region_object);
  delete[] f->arguments;
  PyTypeObject* const type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// Frame(region, kinds, sizes, elements)
PyObject* frame_new(PyTypeObject* type, PyObject* args, PyObject* names) {
  static const char* const kNames[] = {"region", "kinds", "sizes", "elements", nullptr};
  PyObject *region = nullptr, *kinds = nullptr, *sizes = nullptr, *elements = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, names, "OOOO:Frame", const_cast<char**>(kNames), &region, &kinds,
                                   &sizes, &elements))
    return nullptr;
  try {
    if (!nb::isinstance<Region>(region))
      misused("the region of a frame is %R: expected a rondo._core.Region", region);
    const Py_ssize_t n = size_of(kinds);
    if (size_of(sizes) != n || size_of(elements) != n)
      misused("a frame of %zd kinds, %zd sizes and %zd elements: expected one of each for every argument", n,
              size_of(sizes), size_of(elements));
    auto arguments = std::make_unique<rondo_argument[]>(static_cast<size_t>(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      const uint64_t kind = number(item(kinds, i)), element = number(item(elements, i));
      if (kind > RONDO_MADE)
        misused(
            "argument %zd is of kind %llu: expected 0 (in), 1 (out), 2 (inout), 3 (live), 4 (fixed) or 5 "
            "(made)",
            i, static_cast<unsigned long long>(kind));
      if (element > RONDO_F64)
        misused("argument %zd has elements %llu: expected 0 (bytes), 1 (f16), 2 (bf16), 3 (f32) or 4 (f64)",
                i, static_cast<unsigned long long>(element));
      arguments[static_cast<size_t>(i)] = {0, number(item(sizes, i)), static_cast<uint32_t>(kind),
                                           static_cast<uint32_t>(element), 0};
    }
    const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    PyObject* const self = allocate(type, 0);
    if (!self) return nullptr;
    auto* const f = reinterpret_cast<Frame*>(self);
    f->call = frame_call;
    Py_INCREF(region);
    f->region_object = region;
    f->region = nb::inst_ptr<Region>(region)->get();
    f->arguments = arguments.release();
    f->count = n;
    return self;
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  return nullptr;
}

constexpr const char* kFrameDoc =
    "Frame(region, kinds, sizes, elements)\n--\n\n"
    "A place that calls a region: frame(work, stream, *values) -> bool, whether the call was a replay.\n\n"
    "kinds: 0 in, 1 out, 2 inout, 3 live, 4 fixed, 5 made; sizes in bytes; elements: 0 bytes, 1 f16, 2 bf16, "
    "3 f32,\n"
    "4 f64. values: addresses, the bits of scalars, 0 for a made one that work.make() is to give memory "
    "for.\n\n"
    "work.run(stream, values, prove) does the call, and with prove returns the addresses of all made ones;\n"
    "work.capture(values, kinds) returns (graph, owner, made, allocations[, stateful[, arena]]), made as run "
    "does, the\n"
    "address of one whose kind is 1 there being of no interest; work.make() returns addresses for the made "
    "ones whose\n"
    "value is 0; work.before_launch(stream, again) is called where stateful is true.\n"
    "An exception of run() comes out of the call. Any other makes it a plain one: its text is in the report.";

PyType_Spec* frame_spec() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", Py_T_PYSSIZET, offsetof(Frame, call), Py_READONLY, nullptr},
      {"__weaklistoffset__", Py_T_PYSSIZET, offsetof(Frame, weak_references), Py_READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(frame_new)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(frame_dealloc)},
                                {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_members, members},
                                {Py_tp_doc, const_cast<char*>(kFrameDoc)},
                                {0, nullptr}};
  static PyType_Spec spec = {"rondo._core.Frame", sizeof(Frame), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots};
  return &spec;
}

PyObject* new_error(nb::module_& m, const char* name, const char* doc, std::vector<PyObject*> bases) {
  nb::object list = checked(PyTuple_New(static_cast<Py_ssize_t>(bases.size())));
  for (size_t i = 0; i < bases.size(); ++i) {
    Py_INCREF(bases[i]);
    PyTuple_SetItem(list.ptr(), static_cast<Py_ssize_t>(i), bases[i]);
  }
  // Their home is the package, so that they are shown, found and pickled under its name.
  const std::string full = std::string("rondo.") + name;
  nb::object made = checked(PyErr_NewExceptionWithDoc(full.c_str(), doc, list.ptr(), nullptr));
  m.attr(name) = made;
  return made.release().ptr();
}

}  // namespace

NB_MODULE(_core, m) {
  // Regions live as long as the program, in variables of modules: nothing to warn of.
  nb::set_leak_warnings(false);

  name_run = PyUnicode_InternFromString("run");
  name_capture = PyUnicode_InternFromString("capture");
  name_make = PyUnicode_InternFromString("make");
  name_before_launch = PyUnicode_InternFromString("before_launch");
  error_class = new_error(m, "Error", "What went wrong in Rondo, with what to do.", {PyExc_Exception});
  usage_error =
      new_error(m, "UsageError", "The caller: an argument or an option.", {error_class, PyExc_ValueError});
  unavailable_error =
      new_error(m, "UnavailableError", "The machine: no driver, no GPU.", {error_class, PyExc_RuntimeError});
  device_error = new_error(m, "DeviceError", "The driver or a kernel.", {error_class, PyExc_RuntimeError});

  nb::class_<Region>(
      m, "Region",
      "Work on a GPU that is called again and again, recorded once and replayed where that pays.")
      .def(nb::init<const std::string&, const std::string&>(), nb::arg("name"), nb::arg("options") = "",
           "options: a JSON object with the keys of rondo_region_create() (rondo/rondo_c.h).")
      .def(
          "report", [](const Region& r) { return text_of(r.get(), rondo_report_json); },
          "What was decided and why: JSON, as report_json() of this region alone.")
      .def(
          "text", [](const Region& r) { return text_of(r.get(), rondo_report_text); },
          "The report for people.")
      .def("reset", &Region::reset, "Forgets all recordings and decisions of this process.");
  m.attr("Frame") = checked(PyType_FromModuleAndSpec(m.ptr(), frame_spec(), nullptr));

  nb::class_<Capture>(
      m, "Capture",
      "Capture(stream: int): what this thread puts into the stream from here on becomes a graph.")
      .def(nb::init<uint64_t>(), nb::arg("stream"))
      .def("end", &Capture::end,
           "The graph (CUgraph), for graph_destroy(). rondo.DeviceError: what broke the capture.");
  m.def(
      "identical",
      [](nb::list containers, nb::list keys, nb::list objects) {
        const size_t n = containers.size();
        if (keys.size() != n || objects.size() != n)
          misused("identical: three lists of one length are expected");
        for (size_t i = 0; i < n; ++i) {
          // Borrowed, each for as long as it is looked at.
          PyObject *const c = PyList_GetItem(containers.ptr(), static_cast<Py_ssize_t>(i)),
                          *const k = PyList_GetItem(keys.ptr(), static_cast<Py_ssize_t>(i)),
                          *const o = PyList_GetItem(objects.ptr(), static_cast<Py_ssize_t>(i));
          PyObject* found = PyDict_Check(c) ? PyDict_GetItemWithError(c, k) : nullptr;
          if (!PyDict_Check(c)) {
            found = PyObject_GetItem(c, k);
            Py_XDECREF(found);  // the container has it
          }
          if (found == o) continue;
          PyErr_Clear();
          return false;
        }
        return true;
      },
      "Whether each container holds just this object under its key.");
  m.def("graph_destroy", [](uint64_t graph) { rondo_graph_destroy(reinterpret_cast<void*>(graph)); });
  m.def(
      "report_json", [] { return text_of(nullptr, rondo_report_json); },
      "The report of all regions of this process: JSON, as `rondo replay-report` reads it.");
  m.def(
      "report_text", [] { return text_of(nullptr, rondo_report_text); },
      "The report of all regions, for people.");
  m.def("available", &available, "\"\" where a GPU can be used, otherwise why not.");
  m.def(
      "version", [] { return rondo_version(); }, "The version of Rondo.");

  // Before modules are taken apart.
  nb::module_::import_("atexit").attr("register")(
      nb::cpp_function([] { ended.store(true, std::memory_order_release); }));
}
