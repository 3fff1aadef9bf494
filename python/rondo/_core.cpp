// The Python module rondo._core: replay regions for Python, on the C ABI only.
//
// Region and the reports are nanobind's. Frame, whose call is what a replay costs, is a type of CPython's own: its call
// takes integers straight from the interpreter's stack (vectorcall) and allocates nothing.
//
// The GIL is given up around every call into Rondo that may wait, and taken in callbacks, on the thread that made the call.
// make() and before_launch() come while the region is locked, so nobody may hold the GIL and wait for a region.
// What a recording gives up (its owner) may be destroyed by any Python code at all; it is put aside, and let go once
// nothing of Rondo's is locked: at the end of the next call, or by the interpreter. An owner must not refer to its
// region, which the garbage collector could not see.
// Once the interpreter ends, owners are left to the process, and threads other than the one that ends it stay where they
// are, as CPython itself has it from 3.14 on.
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
#include <thread>
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

// ---------------------------------------------------------------- the end of the interpreter
std::atomic<bool> ended{false};
std::thread::id ended_by;

// Before the GIL is taken. A thread that waits for the GIL of an interpreter that ends is unwound by CPython through
// frames that do not expect it.
void stay_if_ended() {
  if (ended.load(std::memory_order_acquire) && std::this_thread::get_id() != ended_by) [[unlikely]]
    for (;;) pause();
}

// Gives the GIL up, and takes it again.
class WithoutGil {
 public:
  WithoutGil() : thread_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    stay_if_ended();
    PyEval_RestoreThread(thread_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  PyThreadState* thread() const { return thread_; }

 private:
  PyThreadState* thread_;
};

// The other way round, within.
class WithGil {
 public:
  explicit WithGil(PyThreadState* thread) {
    stay_if_ended();
    PyEval_RestoreThread(thread);
  }
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
  while (!put_aside.compare_exchange_weak(own->next, own, std::memory_order_release, std::memory_order_relaxed)) {
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

std::string available() {
  const WithoutGil without;
  return rondo_available() == RONDO_OK ? "" : rondo_error_text();
}

// ---------------------------------------------------------------- frames
// The arguments of a place that calls a region, and its work.
struct Frame {
  PyObject_HEAD
  vectorcallfunc call;
  PyObject* weak_references;
  PyObject* region_object;
  rondo_region* region;
  PyObject *run, *capture, *make, *before_launch;  // of the work, looked up once; before_launch: null if it is None
  rondo_argument* arguments;                       // kinds and sizes stay, values are of the call in progress
  Py_ssize_t count;
  bool busy;  // a call is in progress; one that comes in between takes a copy of the arguments
};

struct Call {
  const Frame* frame;
  PyThreadState* thread;
  std::optional<nb::python_error> error;  // of run()
  std::vector<rondo_span> allocations;
};

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

// A callback: with the GIL, and with a text instead of an exception.
template <class F>
int callback(void* object, const F& body, bool keep = false) noexcept {
  Call& call = *static_cast<Call*>(object);
  const WithGil with(call.thread);
  try {
    body(call);
    return 0;
  } catch (nb::python_error& e) {
    // Nobody else sees it; a plain run that comes next is interrupted instead.
    if (!keep && e.matches(PyExc_KeyboardInterrupt)) PyErr_SetInterrupt();
    try {
      rondo_fail(words_of(e).c_str());
      if (keep) call.error.emplace(std::move(e));
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

// The addresses of the results of kind Made, in their order; of those without an address only, where `missing`.
void set_made(const Call& call, rondo_argument* a, nb::handle addresses, bool missing, const char* from) {
  Py_ssize_t expected = 0;
  const auto meant = [&](const rondo_argument& x) { return x.kind == RONDO_MADE && !(missing && x.value); };
  for (Py_ssize_t i = 0; i < call.frame->count; ++i) expected += meant(a[i]);
  const Py_ssize_t given = addresses.is_none() ? 0 : size_of(addresses);
  if (given != expected)
    misused("%s of the work gave %zd addresses, expected %zd: of each result that it allocates%s", from, given, expected,
            missing ? " and that has no memory yet" : "");
  for (Py_ssize_t i = 0, next = 0; i < call.frame->count; ++i)
    if (meant(a[i])) a[i].value = number(item(addresses, next++));
}

int on_run(void* object, void* stream, rondo_argument* a, int prove) {
  return callback(
      object,
      [&](Call& call) {
        call.error.reset();
        const nb::object s = checked(PyLong_FromVoidPtr(stream)), values = values_of(call, a);
        PyObject* const args[] = {s.ptr(), values.ptr(), prove ? Py_True : Py_False};
        const nb::object result = checked(PyObject_Vectorcall(call.frame->run, args, 3, nullptr));
        if (prove) set_made(call, a, result, false, "run(prove=True)");
      },
      true);
}

int on_capture(void* object, rondo_argument* a, rondo_captured* out) {
  return callback(object, [&](Call& call) {
    const nb::object values = values_of(call, a), kinds = kinds_of(call, a);
    PyObject* const args[] = {values.ptr(), kinds.ptr()};
    const nb::object result = checked(PyObject_Vectorcall(call.frame->capture, args, 2, nullptr));
    const Py_ssize_t size = size_of(result);
    if (size < 4 || size > 6)
      misused("capture() of the work returned %zd things, expected (graph, owner, made, allocations[, stateful[, arena]])",
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
    const nb::object result = checked(PyObject_Vectorcall(call.frame->make, nullptr, 0, nullptr));
    set_made(call, a, result, true, "make()");
  });
}

int on_before_launch(void* object, void* stream, int again) {
  return callback(object, [&](Call& call) {
    const Locked region;
    const nb::object s = checked(PyLong_FromVoidPtr(stream));
    PyObject* const args[] = {s.ptr(), again ? Py_True : Py_False};
    (void)checked(PyObject_Vectorcall(call.frame->before_launch, args, 2, nullptr));
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
  if (which == 0)
    PyErr_Format(usage_error, "the stream is %R: expected the integer that it is for the driver", from);
  else
    PyErr_Format(usage_error, "value %zd is %R: expected an address or the bits of a scalar, an integer from 0 to 2**64 - 1",
                 which - 1, from);
  return false;
}

// frame(stream, *values) -> bool
PyObject* frame_call(PyObject* self, PyObject* const* given, size_t flags, PyObject* names) {
  auto* const f = reinterpret_cast<Frame*>(self);
  const Py_ssize_t given_count = PyVectorcall_NARGS(flags);
  if (given_count != f->count + 1 || (names && PyTuple_Size(names) > 0)) [[unlikely]] {
    PyErr_Format(usage_error, "a call of this frame takes a stream and %zd values by place: it was given %zd%s", f->count,
                 given_count, names && PyTuple_Size(names) > 0 ? ", and some by name" : "");
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
  if (!read_value(given[0], 0, &stream)) return nullptr;
  for (Py_ssize_t i = 0; i < f->count; ++i)
    if (!read_value(given[i + 1], i + 1, &arguments[i].value)) return nullptr;

  Call call{f, nullptr, {}, {}};
  const rondo_work work = {&call,   on_run,  on_capture,
                           on_make, f->before_launch ? on_before_launch : nullptr, release};
  if (!copy) f->busy = true;
  int replayed = 0, code = 0;
  {
    const WithoutGil without;
    call.thread = without.thread();
    code = rondo_region_call(f->region, reinterpret_cast<void*>(stream), arguments, static_cast<size_t>(f->count), &work,
                             &replayed);
  }
  if (!copy) f->busy = false;
  if (code) [[unlikely]] {
    if (code != RONDO_ERROR_WORK || !call.error) {
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

int frame_traverse(PyObject* self, visitproc visit, void* arg) {
  auto* const f = reinterpret_cast<Frame*>(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(f->region_object);
  Py_VISIT(f->run);
  Py_VISIT(f->capture);
  Py_VISIT(f->make);
  Py_VISIT(f->before_launch);
  return 0;
}

// A frame that was cleared has nothing to call any more.
PyObject* cleared_call(PyObject*, PyObject* const*, size_t, PyObject*) {
  PyErr_SetString(usage_error, "this frame was taken apart by the garbage collector");
  return nullptr;
}

int frame_clear(PyObject* self) {
  auto* const f = reinterpret_cast<Frame*>(self);
  f->call = cleared_call;
  Py_CLEAR(f->run);
  Py_CLEAR(f->capture);
  Py_CLEAR(f->make);
  Py_CLEAR(f->before_launch);
  Py_CLEAR(f->region_object);
  return 0;
}

void frame_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* const f = reinterpret_cast<Frame*>(self);
  if (f->weak_references) PyObject_ClearWeakRefs(self);
  (void)frame_clear(self);
  delete[] f->arguments;
  PyTypeObject* const type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

nb::object method_of(nb::handle work, const char* name) {
  nb::object method = checked(PyObject_GetAttrString(work.ptr(), name));
  if (!PyCallable_Check(method.ptr())) misused("%s of the work is %R: expected a method", name, method.ptr());
  return method;
}

// Frame(region, work, kinds, sizes, elements)
PyObject* frame_new(PyTypeObject* type, PyObject* args, PyObject* names) {
  static const char* const kNames[] = {"region", "work", "kinds", "sizes", "elements", nullptr};
  PyObject *region = nullptr, *work = nullptr, *kinds = nullptr, *sizes = nullptr, *elements = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, names, "OOOOO:Frame", const_cast<char**>(kNames), &region, &work, &kinds, &sizes,
                                   &elements))
    return nullptr;
  try {
    if (!nb::isinstance<Region>(region)) misused("the region of a frame is %R: expected a rondo._core.Region", region);
    const Py_ssize_t n = size_of(kinds);
    if (size_of(sizes) != n || size_of(elements) != n)
      misused("a frame of %zd kinds, %zd sizes and %zd elements: expected one of each for every argument", n,
              size_of(sizes), size_of(elements));
    auto arguments = std::make_unique<rondo_argument[]>(static_cast<size_t>(n));
    for (Py_ssize_t i = 0; i < n; ++i) {
      const uint64_t kind = number(item(kinds, i)), element = number(item(elements, i));
      if (kind > RONDO_MADE)
        misused("argument %zd is of kind %llu: expected 0 (in), 1 (out), 2 (inout), 3 (live), 4 (fixed) or 5 (made)", i,
                static_cast<unsigned long long>(kind));
      if (element > RONDO_F64)
        misused("argument %zd has elements %llu: expected 0 (bytes), 1 (f16), 2 (bf16), 3 (f32) or 4 (f64)", i,
                static_cast<unsigned long long>(element));
      arguments[static_cast<size_t>(i)] = {0, number(item(sizes, i)), static_cast<uint32_t>(kind),
                                           static_cast<uint32_t>(element), 0};
    }
    nb::object run = method_of(work, "run"), capture = method_of(work, "capture"), make = method_of(work, "make"),
               before = checked(PyObject_GetAttrString(work, "before_launch"));
    if (before.is_none())
      before = {};
    else
      before = method_of(work, "before_launch");

    const auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
    nb::object self = checked(allocate(type, 0));
    auto* const f = reinterpret_cast<Frame*>(self.ptr());
    f->call = frame_call;
    Py_INCREF(region);
    f->region_object = region;
    f->region = nb::inst_ptr<Region>(region)->get();
    f->run = run.release().ptr();
    f->capture = capture.release().ptr();
    f->make = make.release().ptr();
    f->before_launch = before.release().ptr();
    f->arguments = arguments.release();
    f->count = n;
    return self.release().ptr();
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  return nullptr;
}

constexpr const char* kFrameDoc =
    "Frame(region, work, kinds, sizes, elements)\n--\n\n"
    "A place that calls a region: frame(stream, *values) -> bool, whether the call was a replay.\n\n"
    "kinds: 0 in, 1 out, 2 inout, 3 live, 4 fixed, 5 made; sizes in bytes; elements: 0 bytes, 1 f16, 2 bf16, 3 f32,\n"
    "4 f64. values: addresses, the bits of scalars, 0 for a result that work.make() is to give memory for.\n\n"
    "work.run(stream, values, prove) does the call, and with prove returns the addresses of what it made;\n"
    "work.capture(values, kinds) returns (graph, owner, made, allocations[, stateful[, arena]]); work.make() returns\n"
    "addresses for the made ones whose value is 0; work.before_launch(stream, again), or None. An exception of run()\n"
    "comes out of the call. Any other makes it a plain one: its text is in the report.";

PyType_Spec* frame_spec() {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", Py_T_PYSSIZET, offsetof(Frame, call), Py_READONLY, nullptr},
      {"__weaklistoffset__", Py_T_PYSSIZET, offsetof(Frame, weak_references), Py_READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(frame_new)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(frame_dealloc)},
                                {Py_tp_traverse, reinterpret_cast<void*>(frame_traverse)},
                                {Py_tp_clear, reinterpret_cast<void*>(frame_clear)},
                                {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                {Py_tp_members, members},
                                {Py_tp_doc, const_cast<char*>(kFrameDoc)},
                                {0, nullptr}};
  static PyType_Spec spec = {"rondo._core.Frame", sizeof(Frame), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL, slots};
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

  error_class = new_error(m, "Error", "What went wrong in Rondo, with what to do.", {PyExc_Exception});
  usage_error = new_error(m, "UsageError", "The caller: an argument or an option.", {error_class, PyExc_ValueError});
  unavailable_error =
      new_error(m, "UnavailableError", "The machine: no driver, no GPU.", {error_class, PyExc_RuntimeError});
  device_error = new_error(m, "DeviceError", "The driver or a kernel.", {error_class, PyExc_RuntimeError});

  nb::class_<Region>(m, "Region",
                     "Work on a GPU that is called again and again, recorded once and replayed where that pays.")
      .def(nb::init<const std::string&, const std::string&>(), nb::arg("name"), nb::arg("options") = "",
           "options: a JSON object with the keys of rondo_region_create() (rondo/rondo_c.h).")
      .def(
          "report", [](const Region& r) { return text_of(r.get(), rondo_report_json); },
          "What was decided and why: JSON, as report_json() of this region alone.")
      .def("text", [](const Region& r) { return text_of(r.get(), rondo_report_text); }, "The report for people.")
      .def("reset", &Region::reset, "Forgets all recordings and decisions of this process.");
  m.attr("Frame") = checked(PyType_FromModuleAndSpec(m.ptr(), frame_spec(), nullptr));

  m.def("report_json", [] { return text_of(nullptr, rondo_report_json); },
        "The report of all regions of this process: JSON, as `rondo replay-report` reads it.");
  m.def("report_text", [] { return text_of(nullptr, rondo_report_text); }, "The report of all regions, for people.");
  m.def("available", &available, "\"\" where a GPU can be used, otherwise why not.");
  m.def("version", [] { return rondo_version(); }, "The version of Rondo.");

  // Before modules are taken apart.
  nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
    ended_by = std::this_thread::get_id();
    ended.store(true, std::memory_order_release);
  }));
}
