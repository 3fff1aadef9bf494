/* Replay regions for other languages: the C ABI of librondo. C11.
 *
 * A region is work on a GPU that is called again and again, recorded once and replayed as a CUDA graph where
 * that pays (rondo/replay.h says how). Here the work is four callbacks (rondo/replay_work.h says what each
 * must do), called on the thread of rondo_region_call, never with a lock of Rondo's held but for make and
 * before_launch, which must not call into the same region.
 *
 * Errors: a function returns RONDO_OK or a code below; rondo_error_text() then is what happened, with what to
 * do, on this thread until the next call of it. A callback that returns anything but 0 has failed by itself:
 * in a plain run its failure is the call's (RONDO_ERROR_WORK, and the caller knows why); anywhere else the
 * call is done plainly, and the text it left with rondo_fail() is the reason in the report.
 */
#ifndef RONDO_C_H
#define RONDO_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define RONDO_API __declspec(dllexport)
#else
#define RONDO_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define RONDO_C_VERSION 1
RONDO_API int rondo_c_version(void);          /* RONDO_C_VERSION of the library */
RONDO_API const char* rondo_version(void);    /* "0.1.0" */

enum {
  RONDO_OK = 0,
  RONDO_ERROR_USAGE = 1,       /* the caller */
  RONDO_ERROR_UNAVAILABLE = 2, /* the machine: no driver, no GPU */
  RONDO_ERROR_DEVICE = 3,      /* the driver or a kernel */
  RONDO_ERROR_INTERNAL = 4,    /* Rondo */
  RONDO_ERROR_WORK = 5,        /* the work, in a plain run */
  RONDO_ERROR_SOURCE = 6,      /* the author of a program */
  RONDO_ERROR_MEMORY = 7       /* no host memory */
};
RONDO_API const char* rondo_error_text(void);
/* From a callback, before it returns what is not 0: why, in words. */
RONDO_API void rondo_fail(const char* text);

enum { RONDO_IN = 0, RONDO_OUT = 1, RONDO_INOUT = 2, RONDO_LIVE = 3, RONDO_FIXED = 4, RONDO_MADE = 5 };
enum { RONDO_BYTES = 0, RONDO_F16 = 1, RONDO_BF16 = 2, RONDO_F32 = 3, RONDO_F64 = 4 };

typedef struct rondo_argument {
  uint64_t value;    /* an address, or the bits of a scalar, zero-extended */
  uint64_t bytes;    /* of the buffer, of the scalar */
  uint32_t kind;     /* RONDO_IN ... */
  uint32_t element;  /* RONDO_BYTES ..., for comparing with a tolerance */
  uint64_t reserved; /* 0 */
} rondo_argument;

typedef struct rondo_span {
  uint64_t address, bytes;
} rondo_span;

typedef struct rondo_captured {
  void* graph;                    /* CUgraph */
  void* owner;                    /* given to release() when it is no longer needed, on any thread */
  const rondo_span* allocations;  /* valid until the next callback of the same work */
  size_t allocation_count;
  int stateful;                   /* not 0: before_launch is called before each launch */
  uint64_t arena;                 /* memory shared with other captures of this number; 0: of its own */
} rondo_captured;

typedef struct rondo_work {
  void* object;
  int (*run)(void* object, void* stream, rondo_argument* arguments, int prove);
  int (*capture)(void* object, rondo_argument* arguments, rondo_captured* out);
  int (*make)(void* object, rondo_argument* arguments);
  int (*before_launch)(void* object, void* stream, int again); /* may be NULL: there is nothing to do */
  void (*release)(void* owner);
} rondo_work;

typedef struct rondo_region rondo_region;
/* `options`: a JSON object, NULL: all as in rondo/replay.h. Keys: "policy" ("auto", "always", "never"), "goal"
 * ("both", "period", "latency"), "proof" ("exact", "tolerance", "off", "auto"), "tolerance", "staging" ("auto",
 * "always", "never"), "plain_calls", "most_recordings", "most_bytes", "most_failures", "check_arguments",
 * "remember", "recapture". Errors: USAGE for what is none of these; UNAVAILABLE without a driver. */
RONDO_API int rondo_region_create(const char* name, const char* options, rondo_region** out);
RONDO_API void rondo_region_destroy(rondo_region* region); /* NULL is nothing */
/* *replayed: whether the call was a replay; then the values of MADE arguments are where the results are. */
RONDO_API int rondo_region_call(rondo_region* region, void* stream, rondo_argument* arguments, size_t count,
                                const rondo_work* work, int* replayed);
RONDO_API int rondo_region_reset(rondo_region* region);

/* A capture of `stream` by this thread (mode thread-local), for rondo_work's capture. rondo_capture_end also frees
 * `capture`; *graph is a CUgraph, to be destroyed, and with `graph` NULL it is dropped. A capture that was broken ends with
 * DEVICE and what broke it. Either way the stream is usable. */
typedef struct rondo_capture rondo_capture;
RONDO_API int rondo_capture_begin(void* stream, rondo_capture** out);
RONDO_API int rondo_capture_end(rondo_capture* capture, void** graph);
RONDO_API void rondo_graph_destroy(void* graph);

/* Reports: JSON of one region (NULL: of all regions of this process). *text is freed with rondo_free. */
RONDO_API int rondo_report_json(const rondo_region* region, char** text);
RONDO_API int rondo_report_text(const rondo_region* region, char** text);
RONDO_API void rondo_free(void* text);

/* Whether a GPU can be used: RONDO_OK, or UNAVAILABLE with the reason. */
RONDO_API int rondo_available(void);

#ifdef __cplusplus
}
#endif
#endif
